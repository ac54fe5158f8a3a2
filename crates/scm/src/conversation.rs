//! One question's talk with one server.

mod answer;
mod paging;

use std::cell::Cell;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_web::{Client, follow, is_same_server};

use crate::address::Base;
use crate::problem::Problem;
use crate::proof::Proof;
pub(crate) use paging::query_of;

use crate::web::{Trusted, Web, check, failed};

/// More bytes than the words have in which a server says what is wrong.
const WORDS_BYTES: usize = 64 << 10;
/// What stands for a secret in words of a server.
const HIDDEN: &str = "***";

/// One question's talk with one server.
pub(crate) struct Conversation<'w> {
    web: &'w Web,
    /// Whom people know it as: `GitHub`.
    name: &'static str,
    base: Base,
    proof: Option<Proof>,
    client: Client,
    /// Time for one answer.
    patience: Duration,
    /// Requests and bytes that are left.
    requests: Cell<usize>,
    bytes: Cell<usize>,
}

/// An answer that was read.
pub(crate) struct Page<T> {
    pub content: T,
    pub headers: HeaderMap,
}

impl<'w> Conversation<'w> {
    pub fn new(
        web: &'w Web,
        name: &'static str,
        base: Base,
        proof: Option<Proof>,
        trusted: &Trusted,
    ) -> Result<Self, Problem> {
        let client = web.client(trusted)?;
        let limits = &web.limits;
        let (requests, bytes) = (Cell::new(limits.requests), Cell::new(limits.bytes));
        Ok(Self { web, name, base, proof, client, patience: limits.answer, requests, bytes })
    }

    /// The same, with a patience of its own for each answer.
    pub fn patient(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    pub fn web(&self) -> &'w Web {
        self.web
    }

    /// A problem in words that name the server, without anything secret: a server may repeat what it was sent.
    pub(crate) fn wrong(&self, words: impl AsRef<str>) -> Problem {
        let words = format!("{} at {} {}", self.name, self.base.text(), words.as_ref());
        Problem::new(self.hide(words))
    }

    fn hide(&self, words: String) -> String {
        let hidden = self.proof.iter().flat_map(|proof| &proof.hidden);
        hidden.fold(words, |words, secret| words.replace(secret.as_str(), HIDDEN))
    }

    /// What is asked for, read as JSON.
    pub async fn get<T: DeserializeOwned>(&self, path: &str, query: &str) -> Result<T, Problem> {
        self.page(path, query).await.map(|page| page.content)
    }

    /// The same, with its headers.
    pub async fn page<T: DeserializeOwned>(&self, path: &str, query: &str) -> Result<Page<T>, Problem> {
        let answer = self.ask(path, query).await?;
        let answer = self.judge(answer, &format!("GET {path}")).await?;
        self.read(answer, path).await
    }

    /// The same, where it may not be there.
    pub async fn find<T: DeserializeOwned>(&self, path: &str, query: &str) -> Result<Option<T>, Problem> {
        let answer = self.ask(path, query).await?;
        if matches!(answer.status(), StatusCode::NOT_FOUND | StatusCode::NO_CONTENT) {
            return Ok(None);
        }
        let answer = self.judge(answer, &format!("GET {path}")).await?;
        self.read(answer, path).await.map(|page| Some(page.content))
    }

    /// Whether something is there. Nothing of it is read.
    pub async fn exists(&self, path: &str, query: &str) -> Result<bool, Problem> {
        let answer = self.ask(path, query).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        self.judge(answer, &format!("GET {path}")).await.map(|_| true)
    }

    /// What is answered to something that is given. The server may not send us on.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Problem> {
        let at = self.base.at(path, "")?;
        let answer = self.send(Method::POST, &at, Some(Bytes::from(body.to_string()))).await?;
        let answer = self.judge(answer, &format!("POST {path}")).await?;
        self.read(answer, path).await.map(|page| page.content)
    }

    /// Asks for something where the server sends us in the end. The answer is what it says there, whatever that is.
    async fn ask(&self, path: &str, query: &str) -> Result<Response<Incoming>, Problem> {
        let mut at = self.base.at(path, query)?;
        for _ in 0..=self.web.limits.redirects {
            let answer = self.send(Method::GET, &at, None).await?;
            if !answer.status().is_redirection() || answer.status() == StatusCode::NOT_MODIFIED {
                return Ok(answer);
            }
            let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let location = location.ok_or_else(|| self.wrong("sends us on without saying where to"))?;
            at = follow(&at, location).map_err(|misled| self.wrong(misled.to_string()))?;
        }
        Err(self.wrong(format!("has sent us on more than {} times", self.web.limits.redirects)))
    }

    async fn send(
        &self,
        method: Method,
        at: &Uri,
        body: Option<Bytes>,
    ) -> Result<Response<Incoming>, Problem> {
        if let Some(wait) = self.web.wait_of(&self.who()) {
            return Err(self.asked_to_wait("has asked us to wait", Some(wait)));
        }
        let left = self.requests.get().checked_sub(1);
        self.requests.set(left.ok_or_else(|| {
            let most = self.web.limits.requests;
            self.wrong(format!(
                "was asked {most} times for one generator, which is enough; ask for less by its filters"
            ))
        })?);
        check(at, self.base.uri())
            .map_err(|problem| self.wrong(format!("sends us on: {}", problem.words)))?;
        let answer = tokio::time::timeout(self.patience, self.client.request(self.request(method, at, body)));
        match answer.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.wrong(failed(&error))),
            Err(_) => Err(self.late()),
        }
    }

    fn request(&self, method: Method, at: &Uri, body: Option<Bytes>) -> Request<Full<Bytes>> {
        let has_body = body.is_some();
        let mut request = Request::new(Full::new(body.unwrap_or_default()));
        *request.method_mut() = method;
        *request.uri_mut() = at.clone();
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("tidegate/", env!("CARGO_PKG_VERSION"))));
        if has_body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(proof) = self.proof.as_ref().filter(|_| is_same_server(self.base.uri(), at)) {
            headers.insert(proof.name.clone(), proof.value.clone());
        }
        request
    }

    async fn read<T: DeserializeOwned>(
        &self,
        answer: Response<Incoming>,
        path: &str,
    ) -> Result<Page<T>, Problem> {
        let (parts, body) = answer.into_parts();
        let most = self.web.limits.page_bytes.min(self.bytes.get());
        let body = tokio::time::timeout(self.patience, Limited::new(body, most).collect()).await;
        let body = body.map_err(|_| self.late())?.map_err(|error| match error
            .is::<http_body_util::LengthLimitError>()
        {
            true => self.wrong(format!("answers more to {path} than anybody reads, {most} bytes")),
            false => self.wrong("broke the connection in the middle of its answer"),
        })?;
        let body = body.to_bytes();
        self.bytes.set(self.bytes.get().saturating_sub(body.len()));
        let content = serde_json::from_slice(&body).map_err(|error| {
            self.wrong(format!(
                "answers to {path} with what is not expected there ({error}); check the address"
            ))
        })?;
        Ok(Page { content, headers: parts.headers })
    }

    fn late(&self) -> Problem {
        self.wrong(format!("did not answer within {} s", self.patience.as_secs_f64()))
    }

    /// Gives up what proves who asks, where it was kept and may have been taken back since. Says whether another one may be
    /// accepted.
    fn give_up(&self) -> bool {
        let held = self.proof.as_ref().and_then(|proof| proof.held.as_ref());
        // What is new may do for others.
        let Some(held) = held.filter(|held| held.is_kept) else { return false };
        self.web.tokens.give_up(&held.installed, &held.token);
        true
    }

    /// By whom the server knows us again.
    fn who(&self) -> Vec<u8> {
        let proof = self.proof.as_ref().map(Proof::known_by).unwrap_or_default();
        [self.base.text().as_bytes(), b" ", proof].concat()
    }

    /// What of an answer's words can be shown.
    async fn words(&self, answer: Response<Incoming>) -> Option<String> {
        let body = Limited::new(answer.into_body(), WORDS_BYTES).collect();
        let body = tokio::time::timeout(self.patience, body).await.ok()?.ok()?;
        answer::words(&body.to_bytes())
    }
}
