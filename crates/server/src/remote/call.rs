//! Calls a webhook: HTTPS, with a timeout and the retries of Kubernetes (WH-10, WH-30 to WH-34).
//!
//! DIVERGES: redirects are followed within the same server only (WH-23: 307 and 308, at most 10 requests), because only the
//! server in the file is trusted; an answer in YAML is an error.

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use portcullis_apimachinery::duration;
use portcullis_client::connect::describe;
use portcullis_client::kubeconfig::service::{Connection, Credentials};
use portcullis_client::refusal::{Refusal, is_lost, is_passing};
use portcullis_client::review::Backoff;
use tokio::time::{sleep, timeout};

use crate::http::redirect;

/// WH-32
const REPETITIONS: u32 = 10;
/// DIVERGES: larger responses are refused; Kubernetes has no limit.
const ANSWER_BYTES: usize = 1 << 20;
/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(90);
/// The interval of pings on an active connection, and how long a response to a ping may take.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);

/// The call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The webhook did not respond in time.
    #[error("Post {url:?}: no response within {timeout:?}")]
    Timeout {
        /// The requested URL.
        url: String,
        /// The timeout.
        timeout: Duration,
    },
    /// The webhook cannot be reached, or closed the connection.
    #[error("Post {url:?}: {reason}")]
    Transport {
        /// The requested URL.
        url: String,
        /// The cause.
        reason: String,
        /// Whether the connection was lost, so that a retry may succeed (WH-31).
        is_lost: bool,
    },
    /// The webhook responded with an error.
    #[error("the webhook answered {code}: {message}")]
    Refused {
        /// The status code.
        code: u16,
        /// The message in the response.
        message: String,
        /// The number of seconds after which the webhook asks for a retry.
        retry_after: Option<u64>,
        /// The reason in a Kubernetes Status.
        reason: String,
    },
    /// The response cannot be read as a review.
    #[error("the response cannot be decoded: {0}")]
    Answer(String),
    /// An answer without a body.
    #[error("0-length response with status code: {0} and content type: {1}")]
    Empty(u16, String),
    /// The response is too large, or redirects elsewhere.
    #[error("the webhook's response is invalid: {0}")]
    Unfit(String),
    /// The token file cannot be used.
    #[error("cannot use the token file: {0}")]
    Token(String),
}

impl CallError {
    /// WH-31
    fn is_worth_another_call(&self) -> bool {
        match self {
            Self::Transport { is_lost, .. } => *is_lost,
            Self::Refused { code, retry_after, reason, .. } => {
                retry_after.is_some() || is_passing(*code, reason)
            }
            _ => false,
        }
    }

    /// Returns whether the call timed out, on this side or the other (WH-60).
    pub(crate) fn is_timeout(&self) -> bool {
        match self {
            Self::Timeout { .. } => true,
            Self::Refused { code, reason, .. } => {
                *code == 504 || matches!(reason.as_str(), "Timeout" | "ServerTimeout")
            }
            _ => false,
        }
    }
}

/// Calls one webhook, over pooled connections.
pub(crate) struct Caller {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: Uri,
    credentials: Credentials,
    timeout: Duration,
}

/// A response as received.
struct Received {
    code: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Caller {
    /// # Errors
    /// The server name cannot be in any certificate.
    pub(crate) fn new(connection: Connection, limit: Duration) -> Result<Self, String> {
        let Connection { server, server_name, tls, credentials } = connection;
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls);
        // The parser of the file ensures that `http` is only used for this machine.
        let builder =
            if server.scheme_str() == Some("http") { builder.https_or_http() } else { builder.https_only() };
        let builder = match server_name {
            None => builder,
            Some(name) => {
                let name =
                    name.clone().try_into().map_err(|error| format!("tls-server-name {name:?}: {error}"))?;
                builder.with_server_name_resolver(FixedServerNameResolver::new(name))
            }
        };
        let connector = builder.enable_all_versions().build();
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .http2_keep_alive_interval(PING)
            .http2_keep_alive_timeout(PONG)
            .build(connector);
        let path = if server.path().is_empty() { "/" } else { server.path() };
        // WH-10
        let target = format!("{path}?timeout={}", duration::to_text(limit));
        let mut parts = server.clone().into_parts();
        parts.path_and_query = Some(target.parse().map_err(|error| format!("server {server}: {error}"))?);
        let url = Uri::from_parts(parts).map_err(|error| format!("server {server}: {error}"))?;
        Ok(Self { client, url, credentials, timeout: limit })
    }

    /// Calls the webhook until there is a valid response or no retry can help (WH-30). `observe` is notified of each
    /// call.
    pub(crate) async fn ask<T, E: Display>(
        &self,
        body: Vec<u8>,
        read: impl Fn(&[u8]) -> Result<T, E>,
        observe: impl Fn(Result<(), &CallError>, Duration),
    ) -> Result<T, CallError> {
        let body = Bytes::from(body);
        let mut backoff = Backoff::default();
        loop {
            let started = std::time::Instant::now();
            let outcome = self.call(&body, &read).await;
            observe(outcome.as_ref().map(|_| ()), started.elapsed());
            let error = match outcome {
                Err(error) if error.is_worth_another_call() => error,
                outcome => return outcome,
            };
            let Some(wait) = backoff.next(Duration::ZERO) else { return Err(error) };
            tracing::debug!(%error, "retrying the webhook call");
            sleep(wait).await;
        }
    }

    /// Makes one call, with the retries that the webhook asks for, all within the timeout (WH-32, WH-33).
    async fn call<T, E: Display>(
        &self,
        body: &Bytes,
        read: impl Fn(&[u8]) -> Result<T, E>,
    ) -> Result<T, CallError> {
        let repeating = async {
            let mut repetition = 0;
            loop {
                let received = self.exchange(body).await?;
                let after = retry_after(&received);
                match after {
                    Some(seconds) if repetition < REPETITIONS => {
                        repetition += 1;
                        sleep(Duration::from_secs(seconds)).await;
                    }
                    _ => return Ok(received),
                }
            }
        };
        let received = timeout(self.timeout, repeating).await.unwrap_or_else(|_| {
            Err(CallError::Timeout { url: self.url.to_string(), timeout: self.timeout })
        })?;
        understand(&received, read)
    }

    /// Makes a request, and the same again where the server redirects it (WH-23).
    async fn exchange(&self, body: &Bytes) -> Result<Received, CallError> {
        let mut url = self.url.clone();
        for _ in 0..redirect::MOST_REQUESTS {
            let received = self.send(&url, body).await?;
            match redirect::of(&url, received.code, &received.headers) {
                None => return Ok(received),
                Some(to) => url = to.map_err(CallError::Unfit)?,
            }
        }
        Err(CallError::Unfit(format!("stopped after {} redirects", redirect::MOST_REQUESTS)))
    }

    async fn send(&self, url: &Uri, body: &Bytes) -> Result<Received, CallError> {
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = url.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
        let agent = concat!("portcullis/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        if let Some(mut value) = self.authorization().await? {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let response = self.client.request(request).await.map_err(|error| self.transport(&error))?;
        let (head, incoming) = response.into_parts();
        let body = match Limited::new(incoming, ANSWER_BYTES).collect().await {
            Ok(collected) => collected.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return Err(CallError::Unfit(format!("it is larger than {ANSWER_BYTES} bytes")));
            }
            Err(error) => return Err(self.transport(&*error)),
        };
        Ok(Received { code: head.status, headers: head.headers, body })
    }

    async fn authorization(&self) -> Result<Option<HeaderValue>, CallError> {
        let text = match &self.credentials {
            Credentials::None => return Ok(None),
            Credentials::Header(value) => value.clone(),
            Credentials::TokenFile(path) => {
                let token = tokio::fs::read_to_string(path)
                    .await
                    .map_err(|error| CallError::Token(format!("{}: {error}", path.display())))?;
                format!("Bearer {}", token.trim())
            }
        };
        let value = HeaderValue::from_str(&text);
        value
            .map(Some)
            .map_err(|_| CallError::Token("it contains characters that are invalid in a header".to_owned()))
    }

    fn transport(&self, error: &(dyn Error + 'static)) -> CallError {
        let is_lost = is_lost(error, |kind| kind == io::ErrorKind::ConnectionReset, |_| false);
        let reason = describe(error);
        CallError::Transport { url: self.url.to_string(), reason, is_lost }
    }
}

/// Returns the number of seconds that the webhook asks to wait: with 429 and 5xx, in whole seconds (WH-32).
fn retry_after(received: &Received) -> Option<u64> {
    let counts = received.code == StatusCode::TOO_MANY_REQUESTS || received.code.is_server_error();
    let value = received.headers.get(RETRY_AFTER).filter(|_| counts)?;
    value.to_str().ok()?.parse().ok()
}

/// Reads a response (WH-20), as JSON whatever its `Content-Type`: a Go handler that sets none sends `text/plain`, and its
/// denial must not turn into no opinion.
fn understand<T, E: Display>(
    received: &Received,
    read: impl Fn(&[u8]) -> Result<T, E>,
) -> Result<T, CallError> {
    let content = received.headers.get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let content = content.as_deref().unwrap_or_default();
    let code = received.code.as_u16();
    if !(200..=206).contains(&code) {
        return Err(refused(received));
    }
    if received.body.is_empty() {
        return Err(CallError::Empty(code, content.to_owned()));
    }
    read(&received.body).map_err(|error| CallError::Answer(error.to_string()))
}

/// Creates an error from a response with another status code.
fn refused(received: &Received) -> CallError {
    let refusal = Refusal::read(received.code, &received.body);
    CallError::Refused {
        code: received.code.as_u16(),
        message: refusal.message.chars().take(1024).collect(),
        retry_after: retry_after(received).or(refusal.retry_after),
        reason: refusal.reason,
    }
}
