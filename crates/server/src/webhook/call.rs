//! One call of a webhook: HTTPS, within its time, with the repetitions that Kubernetes makes (WH-10, WH-30 to WH-34).
//!
//! DIVERGES: redirects are not followed (WH-23 follows 307 and 308): the file names the service, not somebody whom it
//! points to.

use std::error::Error;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use portcullis_client::random::fraction;
use portcullis_client::refusal::{Refusal, is_passing};
use tokio::time::{sleep, timeout};

use super::answer::AnswerError;
use super::kubeconfig::{Connection, Credentials};

/// WH-30
const CALLS: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(500);
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;
/// WH-32
const REPETITIONS: u32 = 10;
/// DIVERGES: larger answers are refused; Kubernetes reads without limit.
const ANSWER_BYTES: usize = 1 << 20;
/// How long a connection that is not needed is kept.
const IDLE: Duration = Duration::from_secs(90);
/// How often a connection that is in use is tried, and how long it may take to show that it is alive.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CallError {
    /// The service did not answer in time.
    #[error("Post {url:?}: no answer within {timeout:?}")]
    Timeout {
        /// What was asked.
        url: String,
        /// The time that it had.
        timeout: Duration,
    },
    /// The service cannot be reached, or broke off.
    #[error("Post {url:?}: {reason}")]
    Transport {
        /// What was asked.
        url: String,
        /// What went wrong.
        reason: String,
        /// Whether the connection was lost, so that another may go well (WH-31).
        is_lost: bool,
    },
    /// The service answered with an error.
    #[error("the webhook answered {code}: {message}")]
    Refused {
        /// The status code.
        code: u16,
        /// What it said.
        message: String,
        /// After how many seconds it wants to be asked again.
        retry_after: Option<u64>,
        /// The reason of a Kubernetes Status.
        reason: String,
    },
    /// What came is no answer.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The answer is too large, or of a type that is not JSON.
    #[error("the webhook's answer is refused: {0}")]
    Unfit(String),
    /// The token file.
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

    /// Whether time ran out, on this side or the other (WH-60).
    pub(super) fn is_timeout(&self) -> bool {
        match self {
            Self::Timeout { .. } => true,
            Self::Refused { code, reason, .. } => {
                *code == 504 || matches!(reason.as_str(), "Timeout" | "ServerTimeout")
            }
            _ => false,
        }
    }
}

/// Calls one service, over connections that are kept.
pub(super) struct Caller {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: Uri,
    credentials: Credentials,
    timeout: Duration,
}

/// What the service sent.
struct Received {
    code: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Caller {
    /// # Errors
    /// A name of the server that no certificate can have.
    pub(super) fn new(connection: Connection, limit: Duration) -> Result<Self, String> {
        let Connection { server, server_name, tls, credentials } = connection;
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls);
        // The reader of the file has seen to it that `http` stays on this machine.
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
        let target = format!("{path}?timeout={}", go_duration(limit));
        let mut parts = server.clone().into_parts();
        parts.path_and_query = Some(target.parse().map_err(|error| format!("server {server}: {error}"))?);
        let url = Uri::from_parts(parts).map_err(|error| format!("server {server}: {error}"))?;
        Ok(Self { client, url, credentials, timeout: limit })
    }

    /// Asks until there is an answer that can be read, or no hope (WH-30). `observe` learns of each call.
    pub(super) async fn ask<T>(
        &self,
        body: Vec<u8>,
        read: impl Fn(&[u8]) -> Result<T, AnswerError>,
        observe: impl Fn(Result<(), &CallError>, Duration),
    ) -> Result<T, CallError> {
        let body = Bytes::from(body);
        let mut wait = FIRST_WAIT;
        let mut call = 1;
        loop {
            let started = std::time::Instant::now();
            let outcome = self.call(&body, &read).await;
            observe(outcome.as_ref().map(|_| ()), started.elapsed());
            match outcome {
                Err(error) if call < CALLS && error.is_worth_another_call() => {
                    tracing::debug!(%error, call, "the webhook is asked again");
                    sleep(wait.mul_f64(1.0 + JITTER * fraction())).await;
                    wait = wait.mul_f64(FACTOR);
                    call += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// One call, with the repetitions that the service asks for, all within the time (WH-32, WH-33).
    async fn call<T>(
        &self,
        body: &Bytes,
        read: impl Fn(&[u8]) -> Result<T, AnswerError>,
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

    async fn exchange(&self, body: &Bytes) -> Result<Received, CallError> {
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.clone();
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
        let (head, mut incoming) = response.into_parts();
        let mut body = BytesMut::new();
        while let Some(frame) = incoming.frame().await {
            let frame = frame.map_err(|error| self.transport(&error))?;
            let Ok(data) = frame.into_data() else { continue };
            if body.len() + data.len() > ANSWER_BYTES {
                return Err(CallError::Unfit(format!("it is larger than {ANSWER_BYTES} bytes")));
            }
            body.extend_from_slice(&data);
        }
        Ok(Received { code: head.status, headers: head.headers, body: body.freeze() })
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
            .map_err(|_| CallError::Token("it holds characters that no header can carry".to_owned()))
    }

    fn transport(&self, error: &(dyn Error + 'static)) -> CallError {
        let mut reason = error.to_string();
        let mut is_lost = false;
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<io::Error>() {
                is_lost |= error.kind() == io::ErrorKind::ConnectionReset;
            }
            if let Some(error) = error.downcast_ref::<hyper::Error>() {
                is_lost |= error.is_canceled() || error.is_closed();
            }
            cause = error.source();
            if let Some(next) = cause {
                reason = format!("{reason}: {next}");
            }
        }
        CallError::Transport { url: self.url.to_string(), reason, is_lost }
    }
}

/// The seconds that the service asks to wait: with 429 and 5xx, in whole seconds (WH-32).
fn retry_after(received: &Received) -> Option<u64> {
    let counts = received.code == StatusCode::TOO_MANY_REQUESTS || received.code.is_server_error();
    let value = received.headers.get(RETRY_AFTER).filter(|_| counts)?;
    value.to_str().ok()?.parse().ok()
}

/// WH-20
fn understand<T>(
    received: &Received,
    read: impl Fn(&[u8]) -> Result<T, AnswerError>,
) -> Result<T, CallError> {
    let content = received.headers.get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let content = content.as_deref().unwrap_or_default();
    let code = received.code.as_u16();
    if !(200..=206).contains(&code) {
        return Err(refused(received));
    }
    if received.body.is_empty() {
        return Err(AnswerError::Empty(code, content.to_owned()).into());
    }
    let media = content.split(';').next().unwrap_or_default().trim();
    if !media.is_empty() && !media.eq_ignore_ascii_case("application/json") {
        return Err(CallError::Unfit(format!("its type is {media:?} and not application/json")));
    }
    Ok(read(&received.body)?)
}

/// What can be understood of an answer with another code.
fn refused(received: &Received) -> CallError {
    let refusal = Refusal::read(received.code, &received.body);
    CallError::Refused {
        code: received.code.as_u16(),
        message: refusal.message.chars().take(1024).collect(),
        retry_after: retry_after(received).or(refusal.retry_after),
        reason: refusal.reason,
    }
}

/// A duration as Go prints it: `30s`, `1m0s`, `1.5s`, `250ms`.
pub(crate) fn go_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let fraction = |unit: u128| {
        let (whole, rest) = (nanos / unit, nanos % unit);
        let digits = format!("{rest:0width$}", width = unit.ilog10() as usize);
        let digits = digits.trim_end_matches('0');
        if rest == 0 { whole.to_string() } else { format!("{whole}.{digits}") }
    };
    match nanos {
        0 => return "0s".to_owned(),
        1..1_000 => return format!("{nanos}ns"),
        1_000..1_000_000 => return format!("{}µs", fraction(1_000)),
        1_000_000..1_000_000_000 => return format!("{}ms", fraction(1_000_000)),
        _ => {}
    }
    let (hours, minutes) = (duration.as_secs() / 3600, duration.as_secs() / 60 % 60);
    let rest = Duration::new(duration.as_secs() % 60, duration.subsec_nanos());
    let seconds = format!("{:09}", rest.subsec_nanos());
    let seconds = match seconds.trim_end_matches('0') {
        "" => format!("{}s", rest.as_secs()),
        digits => format!("{}.{digits}s", rest.as_secs()),
    };
    match (hours, minutes) {
        (0, 0) => seconds,
        (0, minutes) => format!("{minutes}m{seconds}"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_go_prints_them() {
        // From the documentation of Go's time.Duration.String.
        for (milliseconds, text) in [
            (0, "0s"),
            (30_000, "30s"),
            (1_500, "1.5s"),
            (250, "250ms"),
            (60_000, "1m0s"),
            (5_400_000, "1h30m0s"),
        ] {
            assert_eq!(go_duration(Duration::from_millis(milliseconds)), text);
        }
        assert_eq!(go_duration(Duration::from_micros(1_500)), "1.5ms");
    }
}
