//! One row of the table of routes: where, for whom, what is asked and answered, and the function between them.

use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Response, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::access::{Access, Caller, Role};
use crate::entrance::Visit;
use crate::problem::{Code, Problem};
use crate::question::{Nothing, Question, schema};
use crate::site::Site;
use crate::tokens::Pass;
use crate::webhooks::{Heard, Sender, hear};

/// A request whose head was looked at.
pub(crate) struct Asked {
    pub site: Arc<Site>,
    /// The parts of the path that have names.
    pub names: Vec<(String, String)>,
    pub query: Option<String>,
    pub body: Bytes,
    pub by: Caller,
    pub pass: Pass,
    pub visit: Visit,
    /// The header `Last-Event-ID`.
    pub last_event: Option<String>,
    /// Who sent the body, where that is proven by the body itself.
    pub sender: Option<Sender>,
}

/// A request as its handler sees it.
pub(crate) struct Call<Q = Nothing, B = Nothing> {
    pub site: Arc<Site>,
    pub query: Q,
    pub body: B,
    pub by: Caller,
    /// Whether who asked may still hear the rest of a long answer.
    pub pass: Pass,
    /// How they came.
    pub visit: Visit,
    pub last_event: Option<String>,
    names: Vec<(String, String)>,
}

impl<Q, B> Call<Q, B> {
    /// A part of the path.
    pub fn name(&self, wanted: &str) -> &str {
        self.names
            .iter()
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| value.as_str())
            .unwrap_or_default()
    }
}

pub(crate) type Answer = Result<Response<Body>, Problem>;
type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;
type Handler = Box<dyn Fn(Asked) -> Answering + Send + Sync>;

/// What makes the schema of a type.
pub(crate) type Shape = fn(&mut SchemaGenerator) -> Schema;

/// What is answered when all is well.
#[derive(Clone, Copy)]
pub(crate) enum Gives {
    /// JSON of this shape.
    Json(Shape),
    /// Text of this media type.
    Text(&'static str),
    /// Server-sent events, whose data are JSON of this shape.
    Events(Shape),
}

/// One row of the table of routes.
pub(crate) struct Route {
    pub method: Method,
    pub path: &'static str,
    /// What programs call it.
    pub id: &'static str,
    /// What it does.
    pub summary: &'static str,
    pub access: Access,
    /// The parameters of its query, as an object.
    pub query: Schema,
    pub body: Option<Shape>,
    pub status: StatusCode,
    pub gives: Gives,
    handler: Handler,
}

impl Route {
    /// Answers a request.
    pub fn answer(&self, asked: Asked) -> Answering {
        (self.handler)(asked)
    }

    /// Everybody may ask, as often as they like.
    pub fn probe(self) -> Self {
        Self { access: Access::Probe, ..self }
    }

    /// Everybody may ask, and is told who they are.
    pub fn anybody(self) -> Self {
        Self { access: Access::Anybody, ..self }
    }

    /// Everybody may ask.
    pub fn open(self) -> Self {
        Self { access: Access::Open, ..self }
    }
}

/// The path and what it is called and does.
pub(crate) type Words = (&'static str, &'static str, &'static str);

/// A question whose answer is JSON.
pub(crate) fn look<Q, A, F, Fut>(words: Words, handler: F) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    A: Serialize + JsonSchema + 'static,
    F: Fn(Call<Q>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<A, Problem>> + Send + 'static,
{
    look_otherwise(words, Gives::Json(SchemaGenerator::subschema_for::<A>), move |call| {
        let answering = handler(call);
        async move { json(StatusCode::OK, &answering.await?) }
    })
}

/// A question whose answer is something else.
pub(crate) fn look_otherwise<Q, F, Fut>(words: Words, gives: Gives, handler: F) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(Call<Q>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Answer> + Send + 'static,
{
    look_at(words, gives, Question::new(), handler)
}

/// A way through here to somewhere else, for browsers; `question` reads what they are sent with.
pub(crate) fn pass_through<Q, F, Fut>(words: Words, question: Question<Q>, handler: F) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(Call<Q>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Answer> + Send + 'static,
{
    let route = look_at(words, Gives::Text("text/html"), question, handler);
    Route { status: StatusCode::SEE_OTHER, access: Access::Open, ..route }
}

fn look_at<Q, F, Fut>((path, id, summary): Words, gives: Gives, question: Question<Q>, handler: F) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(Call<Q>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Answer> + Send + 'static,
{
    let question = Arc::new(question);
    Route {
        method: Method::GET,
        path,
        id,
        summary,
        access: Access::Needs(Role::ReadOnly),
        query: schema::<Q>(),
        body: None,
        status: StatusCode::OK,
        gives,
        handler: Box::new(move |asked| {
            let (question, handler) = (Arc::clone(&question), handler.clone());
            Box::pin(async move {
                let Asked { site, names, query, by, pass, visit, last_event, .. } = asked;
                let query = question.read(query.as_deref())?;
                handler(Call { site, names, query, body: Nothing {}, by, pass, visit, last_event }).await
            })
        }),
    }
}

/// Something to be deleted, by operators.
pub(crate) fn delete<Q, A, F, Fut>(words: Words, handler: F) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    A: Serialize + JsonSchema + 'static,
    F: Fn(Call<Q>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<A, Problem>> + Send + 'static,
{
    let status = StatusCode::ACCEPTED;
    let route = look_otherwise(words, Gives::Json(SchemaGenerator::subschema_for::<A>), move |call| {
        let answering = handler(call);
        async move { json(status, &answering.await?) }
    });
    Route { method: Method::DELETE, access: Access::Needs(Role::Operator), status, ..route }
}

/// Something to be done, by operators.
pub(crate) fn act<B, A, F, Fut>(words: Words, handler: F) -> Route
where
    B: DeserializeOwned + JsonSchema + Send + 'static,
    A: Serialize + JsonSchema + 'static,
    F: Fn(Call<Nothing, B>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<A, Problem>> + Send + 'static,
{
    let gives = Gives::Json(SchemaGenerator::subschema_for::<A>);
    act_otherwise((words, Role::Operator), (StatusCode::ACCEPTED, gives), move |call| {
        let answering = handler(call);
        async move { json(StatusCode::ACCEPTED, &answering.await?) }
    })
}

/// Something to be done, whose answer says more than its JSON.
pub(crate) fn act_otherwise<B, F, Fut>(
    ((path, id, summary), role): (Words, Role),
    (status, gives): (StatusCode, Gives),
    handler: F,
) -> Route
where
    B: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(Call<Nothing, B>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Answer> + Send + 'static,
{
    let question = Arc::new(Question::<Nothing>::new());
    Route {
        method: Method::POST,
        path,
        id,
        summary,
        access: Access::Needs(role),
        query: schema::<Nothing>(),
        body: Some(SchemaGenerator::subschema_for::<B>),
        status,
        gives,
        handler: Box::new(move |asked| {
            let (question, handler) = (Arc::clone(&question), handler.clone());
            Box::pin(async move {
                let Asked { site, names, query, body, by, pass, visit, last_event, .. } = asked;
                let query = question.read(query.as_deref())?;
                let body = read_body(&body)?;
                handler(Call { site, names, query, body, by, pass, visit, last_event }).await
            })
        }),
    }
}

/// An event that its sender has proven; whoever writes one by themselves writes a `B`.
pub(crate) fn told<B, A, F, Fut>((path, id, summary): Words, handler: F) -> Route
where
    B: JsonSchema,
    A: Serialize + JsonSchema + 'static,
    F: Fn(Arc<Site>, Heard) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<A, Problem>> + Send + 'static,
{
    let status = StatusCode::ACCEPTED;
    Route {
        method: Method::POST,
        path,
        id,
        summary,
        access: Access::Signed,
        query: schema::<Nothing>(),
        body: Some(SchemaGenerator::subschema_for::<B>),
        status,
        gives: Gives::Json(SchemaGenerator::subschema_for::<A>),
        handler: Box::new(move |asked| {
            let handler = handler.clone();
            Box::pin(async move {
                let Asked { site, body, sender, .. } = asked;
                let unknown = || Problem::bad("nobody knows whose event this is");
                let heard = hear(&sender.ok_or_else(unknown)?, &body)?;
                json(status, &handler(site, heard).await?)
            })
        }),
    }
}

/// An empty body is an empty object.
fn read_body<B: DeserializeOwned>(body: &[u8]) -> Result<B, Problem> {
    let body = if body.iter().all(u8::is_ascii_whitespace) { b"{}" } else { body };
    // An array would be taken for the fields in their order.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Problem::bad("the body is no JSON object"));
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = serde_path_to_error::deserialize(&mut json).map_err(|error| error.to_string());
    let read = read.and_then(|read| json.end().map(|()| read).map_err(|error| error.to_string()));
    read.map_err(|error| Problem::bad(format!("the body: {error}")))
}

/// An answer as JSON.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(value)
        .map_err(|error| Problem::new(Code::Internal, format!("the answer cannot be written: {error}")))?;
    Ok(text(status, "application/json", body))
}

/// An answer in one piece.
pub(crate) fn text(status: StatusCode, media: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    answer
}
