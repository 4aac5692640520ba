//! Sends one review, with retries while they can help (KA-50).
//!
//! DIVERGES: a response larger than a quarter of a MiB is refused; a requested delay is limited to ten seconds; an
//! attempt is aborted and retried after ten seconds, while Kubernetes keeps waiting.

use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;

use super::answer::told;
use super::backoff::Backoff;
use super::error::ReviewError;
use super::metrics::Calls;
use crate::clock::Clock;
use crate::connect::{Connection, describe};
use crate::refusal::{Refusal, is_lost, is_passing};

/// The timeout of a review, including all attempts (KA-45).
pub(super) const LIMIT: Duration = Duration::from_secs(30);
/// The timeout of one attempt, so that a dead connection is replaced.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(10);
/// The maximum delay that the API server can request.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The maximum size of a response.
const ANSWER_BYTES: usize = 256 << 10;

/// Sends reviews to one API server.
pub(super) struct Caller {
    pub(super) connection: Connection,
    pub(super) clock: Arc<dyn Clock>,
    /// The reason if the last review had no response.
    pub(super) silence: Mutex<Option<String>>,
}

/// The error of an attempt, and the least wait before a retry; none if no retry can succeed.
struct Failure {
    error: ReviewError,
    again: Option<Duration>,
}

impl Caller {
    /// Returns the response body of a review. `token` must not be quoted in errors.
    ///
    /// # Errors
    /// There is no valid response; see [`ReviewError`].
    pub(super) async fn ask(
        &self,
        path: &str,
        body: &[u8],
        token: Option<&str>,
        metrics: &Calls,
    ) -> Result<Vec<u8>, ReviewError> {
        let asking = async {
            let mut backoff = Backoff::default();
            loop {
                let Failure { error, again } = match self.attempt(path, body, token, metrics).await {
                    Ok(answer) => return Ok(answer),
                    Err(failure) => failure,
                };
                let wait = again.and_then(|least| backoff.next(least.min(LONGEST_WAIT)));
                let Some(wait) = wait else { return Err(error) };
                tracing::debug!(%error, path, "retrying a review");
                self.clock.sleep(wait).await;
            }
        };
        let answer = within(&*self.clock, LIMIT, asking)
            .await
            .unwrap_or_else(|| Err(self.unreachable(format!("no answer in {} s", LIMIT.as_secs()))));
        let silence = match &answer {
            Err(ReviewError::Unreachable { why, .. }) => Some(why.clone()),
            _ => None,
        };
        *self.silence.lock().unwrap_or_else(PoisonError::into_inner) = silence;
        answer
    }

    /// Makes one attempt and counts it (KA-76).
    async fn attempt(
        &self,
        path: &str,
        body: &[u8],
        token: Option<&str>,
        metrics: &Calls,
    ) -> Result<Vec<u8>, Failure> {
        let began = self.clock.running();
        let exchange = within(&*self.clock, ATTEMPT_LIMIT, self.exchange(path, body)).await;
        let code = exchange.as_ref().and_then(|exchange| exchange.as_ref().ok()).map(|(head, _)| head.0);
        metrics.called(code.map(|code| code.as_u16()), self.clock.running().saturating_sub(began));
        let Some(exchange) = exchange else {
            let error = self.unreachable(format!("no answer in {} s", ATTEMPT_LIMIT.as_secs()));
            return Err(Failure { error, again: Some(Duration::ZERO) });
        };
        let ((code, headers), body) = exchange?;
        let body = body?;
        // WH-20
        if (200..=206).contains(&code.as_u16()) {
            Ok(body)
        } else {
            Err(refused(code, &headers, &body, token))
        }
    }

    /// Sends a review. The status code counts even if the body cannot be read.
    async fn exchange(
        &self,
        path: &str,
        body: &[u8],
    ) -> Result<((StatusCode, HeaderMap), Result<Vec<u8>, Failure>), Failure> {
        let request = Request::post(path)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .body(Body::from(body.to_vec()))
            .map_err(|error| Failure { error: self.unreachable(error.to_string()), again: None })?;
        // The current client, so that the next review uses a renewed certificate.
        let client = self.connection.client();
        let response: Response<Body> = client.send(request).await.map_err(|error| self.lost(&error))?;
        let (head, body) = response.into_parts();
        let body = match Limited::new(body, ANSWER_BYTES).collect().await {
            Ok(collected) => Ok(collected.to_bytes().to_vec()),
            Err(error) if error.is::<LengthLimitError>() => Err(Failure {
                error: ReviewError::Answer {
                    kind: path.to_owned(),
                    why: format!("it is larger than {ANSWER_BYTES} bytes"),
                },
                again: None,
            }),
            Err(error) => Err(self.lost(&*error)),
        };
        Ok(((head.status, head.headers), body))
    }

    fn unreachable(&self, why: String) -> ReviewError {
        ReviewError::Unreachable { server: self.connection.server(), why }
    }

    /// Creates the error for a missing response. A retry may succeed if there was a connection that was lost.
    fn lost(&self, error: &(dyn Error + 'static)) -> Failure {
        let io = |kind| {
            use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
            matches!(kind, ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof)
        };
        let is_lost = is_lost(error, io, hyper::Error::is_incomplete_message);
        Failure { error: self.unreachable(describe(error)), again: is_lost.then_some(Duration::ZERO) }
    }
}

/// Creates the error for a response with another status code (WH-31).
fn refused(code: StatusCode, headers: &HeaderMap, body: &[u8], token: Option<&str>) -> Failure {
    let Refusal { message, reason, retry_after } = Refusal::read(code, body);
    let header = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let asked = header.or(retry_after).map(Duration::from_secs);
    let again = asked.or_else(|| is_passing(code.as_u16(), &reason).then_some(Duration::ZERO));
    let message = told(&message, token);
    Failure { error: ReviewError::Refused { code: code.as_u16(), message }, again }
}

/// Awaits a future with a timeout.
pub(super) async fn within<T>(
    clock: &dyn Clock,
    limit: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        value = future => Some(value),
        () = clock.sleep(limit) => None,
    }
}
