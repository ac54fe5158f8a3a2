//! Rows of the route table: path, permissions, request and response types, and handler.

use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue};
use http::{Method, Response, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::access::{Access, Caller, Role};
use crate::auth::RequestOrigin;
use crate::problem::{Code, Problem};
use crate::query::{NoParameters, QueryParser, inline_schema};
use crate::server_state::ServerState;
use crate::tokens::AuthContext;
use crate::webhooks::Sender;

/// A request that has passed the checks of its head.
pub(crate) struct CheckedRequest {
    pub state: Arc<ServerState>,
    /// Named path parameters.
    pub path_parameters: Vec<(String, String)>,
    pub query: Option<String>,
    pub body: Bytes,
    pub caller: Caller,
    pub auth: AuthContext,
    pub origin: RequestOrigin,
    /// `Last-Event-ID` header.
    pub last_event: Option<String>,
    /// Sender of the body, if authenticated.
    pub sender: Option<Sender>,
}

impl CheckedRequest {
    /// Returns the request for a handler, with its parsed query and body.
    fn into_call<Q, B>(self, query: Q, body: B) -> Call<Q, B> {
        Call {
            state: self.state,
            query,
            body,
            caller: self.caller,
            auth: self.auth,
            origin: self.origin,
            last_event: self.last_event,
            path_parameters: self.path_parameters,
        }
    }
}

/// A request as passed to handlers.
pub(crate) struct Call<Q = NoParameters, B = NoParameters> {
    pub state: Arc<ServerState>,
    pub query: Q,
    pub body: B,
    pub caller: Caller,
    /// Credentials of the caller. Handlers of long-lived responses regularly check that they are still valid.
    pub auth: AuthContext,
    /// Origin of the request.
    pub origin: RequestOrigin,
    pub last_event: Option<String>,
    path_parameters: Vec<(String, String)>,
}

impl<Q, B> Call<Q, B> {
    pub fn path_parameter(&self, wanted: &str) -> &str {
        self.path_parameters
            .iter()
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| value.as_str())
            .unwrap_or_default()
    }
}

pub(crate) type HandlerResult = Result<Response<Body>, Problem>;
type HandlerFuture = Pin<Box<dyn Future<Output = HandlerResult> + Send>>;
type Handler = Box<dyn Fn(CheckedRequest) -> HandlerFuture + Send + Sync>;

/// Function that generates a type's schema.
pub(crate) type SchemaFn = fn(&mut SchemaGenerator) -> Schema;

/// Content of a successful response.
#[derive(Clone, Copy)]
pub(crate) enum ResponseContent {
    /// JSON that matches this schema.
    Json(SchemaFn),
    /// Text with this media type.
    Text(&'static str),
    /// Server-sent events. The data of each event is JSON with this schema.
    Events(SchemaFn),
}

/// One row of the route table.
pub(crate) struct Route {
    pub method: Method,
    pub path: &'static str,
    /// Operation ID in the API description.
    pub id: &'static str,
    /// Summary in the API description.
    pub summary: &'static str,
    pub access: Access,
    /// Query parameters, as an object schema.
    pub query: Schema,
    pub body: Option<SchemaFn>,
    /// True if an empty body must be rejected.
    pub needs_body: bool,
    pub status: StatusCode,
    pub content: ResponseContent,
    pub handler: Handler,
}

impl Route {
    pub fn handle(&self, request: CheckedRequest) -> HandlerFuture {
        (self.handler)(request)
    }

    /// Allows everyone, without a rate limit.
    pub fn probe(self) -> Self {
        Self { access: Access::Probe, ..self }
    }

    /// Allows everyone. The response identifies the caller, if authenticated.
    pub fn optional_auth(self) -> Self {
        Self { access: Access::OptionalAuth, ..self }
    }

    /// Allows everyone.
    pub fn public(self) -> Self {
        Self { access: Access::Public, ..self }
    }
}

/// Creates a GET route with a JSON response. `id` is the ID of the operation in the OpenAPI description.
pub(crate) fn get_route<Q, A, F, Fut>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: F,
) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    A: Serialize + JsonSchema + 'static,
    F: Fn(Call<Q>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<A, Problem>> + Send + 'static,
{
    get_route_as(path, id, summary, ResponseContent::Json(SchemaGenerator::subschema_for::<A>), move |call| {
        let answering = handler(call);
        async move { json_response(StatusCode::OK, &answering.await?) }
    })
}

/// Creates a GET route whose response isn't JSON.
pub(crate) fn get_route_as<Q, F, Fut>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    content: ResponseContent,
    handler: F,
) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(Call<Q>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = HandlerResult> + Send + 'static,
{
    build_get_route(path, id, summary, content, QueryParser::new(), handler)
}

/// Creates a GET route that redirects browsers. `question` parses the query.
pub(crate) fn redirect_route<Q, F, Fut>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    question: QueryParser<Q>,
    handler: F,
) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(Call<Q>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = HandlerResult> + Send + 'static,
{
    let route = build_get_route(path, id, summary, ResponseContent::Text("text/html"), question, handler);
    Route { status: StatusCode::SEE_OTHER, access: Access::Public, ..route }
}

fn build_get_route<Q, F, Fut>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    content: ResponseContent,
    question: QueryParser<Q>,
    handler: F,
) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(Call<Q>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = HandlerResult> + Send + 'static,
{
    let question = Arc::new(question);
    Route {
        method: Method::GET,
        path,
        id,
        summary,
        access: Access::RequiresRole(Role::ReadOnly),
        query: inline_schema::<Q>(),
        body: None,
        needs_body: false,
        status: StatusCode::OK,
        content,
        handler: Box::new(move |request| {
            let (question, handler) = (Arc::clone(&question), handler.clone());
            Box::pin(async move {
                let query = question.parse(request.query.as_deref())?;
                handler(request.into_call(query, NoParameters {})).await
            })
        }),
    }
}

/// Creates a DELETE route for operators.
pub(crate) fn delete_route<Q, A, F, Fut>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: F,
) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    A: Serialize + JsonSchema + 'static,
    F: Fn(Call<Q>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<A, Problem>> + Send + 'static,
{
    let status = StatusCode::ACCEPTED;
    let route = get_route_as(
        path,
        id,
        summary,
        ResponseContent::Json(SchemaGenerator::subschema_for::<A>),
        move |call| {
            let answering = handler(call);
            async move { json_response(status, &answering.await?) }
        },
    );
    Route { method: Method::DELETE, access: Access::RequiresRole(Role::Operator), status, ..route }
}

/// Creates a POST route for operators.
pub(crate) fn post_route<B, A, F, Fut>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: F,
) -> Route
where
    B: DeserializeOwned + JsonSchema + Send + 'static,
    A: Serialize + JsonSchema + 'static,
    F: Fn(Call<NoParameters, B>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<A, Problem>> + Send + 'static,
{
    let content = ResponseContent::Json(SchemaGenerator::subschema_for::<A>);
    post_route_as(path, id, summary, Role::Operator, StatusCode::ACCEPTED, content, move |call| {
        let answering = handler(call);
        async move { json_response(StatusCode::ACCEPTED, &answering.await?) }
    })
}

/// Creates a POST route whose handler builds the complete response.
pub(crate) fn post_route_as<B, F, Fut>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    role: Role,
    status: StatusCode,
    content: ResponseContent,
    handler: F,
) -> Route
where
    B: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(Call<NoParameters, B>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = HandlerResult> + Send + 'static,
{
    let question = Arc::new(QueryParser::<NoParameters>::new());
    Route {
        method: Method::POST,
        path,
        id,
        summary,
        access: Access::RequiresRole(role),
        query: inline_schema::<NoParameters>(),
        body: Some(SchemaGenerator::subschema_for::<B>),
        needs_body: read_body::<B>(b"").is_err() || inline_schema::<B>().get("oneOf").is_some(),
        status,
        content,
        handler: Box::new(move |request| {
            let (question, handler) = (Arc::clone(&question), handler.clone());
            Box::pin(async move {
                let query = question.parse(request.query.as_deref())?;
                let body = read_body(&request.body)?;
                handler(request.into_call(query, body)).await
            })
        }),
    }
}

/// Parses a body. Treats an empty body as an empty object.
fn read_body<B: DeserializeOwned>(body: &[u8]) -> Result<B, Problem> {
    let body = if body.iter().all(u8::is_ascii_whitespace) { b"{}" } else { body };
    // Reject an array, because the parser would assign its items to the fields in order.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Problem::bad_request("the body is not a JSON object"));
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = serde_path_to_error::deserialize(&mut json).map_err(|error| error.to_string());
    let read = read.and_then(|read| json.end().map(|()| read).map_err(|error| error.to_string()));
    read.map_err(|error| Problem::bad_request(format!("invalid body: {error}")))
}

pub(crate) fn json_response(status: StatusCode, value: &impl Serialize) -> HandlerResult {
    let body = serde_json::to_vec(value)
        .map_err(|error| Problem::new(Code::Internal, format!("cannot serialize the response: {error}")))?;
    Ok(text_response(status, "application/json", body))
}

/// Returns a complete response with a text body.
pub(crate) fn text_response(
    status: StatusCode,
    media: &'static str,
    body: impl Into<Body>,
) -> Response<Body> {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    answer
}

/// Marks a response as a download under this file name. Otherwise, the browser would display it in place of
/// Tidegate's page.
pub(crate) fn as_download(mut answer: Response<Body>, file_name: &str) -> Response<Body> {
    let disposition = format!("attachment; filename=\"{file_name}\"");
    let disposition = HeaderValue::from_str(&disposition).ok();
    answer.headers_mut().extend(disposition.map(|disposition| (CONTENT_DISPOSITION, disposition)));
    answer
}
