//! One review, asked until there is an answer or no hope (KA-50).
//!
//! DIVERGES: an answer larger than a quarter of a MiB is refused; a wait that the API server asks for is cut to ten
//! seconds; an attempt that takes ten seconds is given up and made again, where Kubernetes waits on.

use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;

use super::ReviewError;
use super::answer::told;
use super::metrics::Calls;
use crate::clock::Clock;
use crate::connect::{Connection, describe};
use crate::random::fraction;
use crate::refusal::{Refusal, is_passing};

/// KA-50
const ATTEMPTS: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(500);
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;
/// How long a review may take, with all its attempts (KA-45).
pub(super) const LIMIT: Duration = Duration::from_secs(30);
/// How long one attempt may take: a connection that died without a word is given up for another.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(10);
/// The longest wait that the API server may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The largest answer.
const ANSWER_BYTES: usize = 256 << 10;

/// Asks one API server.
pub(super) struct Caller {
    pub(super) connection: Connection,
    pub(super) clock: Arc<dyn Clock>,
    /// Why there was no answer, if the last review that was sent had none.
    pub(super) silence: Mutex<Option<String>>,
}

/// Why an attempt failed, and whether another may go well.
struct Failure {
    error: ReviewError,
    again: Again,
}

enum Again {
    No,
    Yes,
    /// Not before so long.
    After(Duration),
}

impl Caller {
    /// The body of the answer to a review. `token` is what must not be told on.
    ///
    /// # Errors
    /// There is no answer; see [`ReviewError`].
    pub(super) async fn ask(
        &self,
        path: &str,
        body: &[u8],
        token: Option<&str>,
        metrics: &Calls,
    ) -> Result<Vec<u8>, ReviewError> {
        let asking = async {
            let (mut wait, mut attempt) = (FIRST_WAIT, 1);
            loop {
                let Failure { error, again } = match self.attempt(path, body, token, metrics).await {
                    Ok(answer) => return Ok(answer),
                    Err(failure) => failure,
                };
                let least = match again {
                    Again::No => return Err(error),
                    _ if attempt >= ATTEMPTS => return Err(error),
                    Again::Yes => Duration::ZERO,
                    Again::After(time) => time.min(LONGEST_WAIT),
                };
                tracing::debug!(%error, attempt, path, "a review is asked for again");
                self.clock.sleep(wait.mul_f64(1.0 + JITTER * fraction()).max(least)).await;
                wait = wait.mul_f64(FACTOR);
                attempt += 1;
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

    /// One attempt, counted (KA-76).
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
            return Err(Failure { error, again: Again::Yes });
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

    /// Sends a review. The head of the answer counts even if its body cannot be read.
    async fn exchange(
        &self,
        path: &str,
        body: &[u8],
    ) -> Result<((StatusCode, HeaderMap), Result<Vec<u8>, Failure>), Failure> {
        let request = Request::post(path)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .body(Body::from(body.to_vec()))
            .map_err(|error| Failure { error: self.unreachable(error.to_string()), again: Again::No })?;
        // The client is that of now: a renewed certificate is in use from the next review on.
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
                again: Again::No,
            }),
            Err(error) => Err(self.lost(&*error)),
        };
        Ok(((head.status, head.headers), body))
    }

    fn unreachable(&self, why: String) -> ReviewError {
        ReviewError::Unreachable { server: self.connection.server(), why }
    }

    /// There is no answer. Worth another attempt if there was a connection, and it was lost.
    fn lost(&self, error: &(dyn Error + 'static)) -> Failure {
        let mut cause = Some(error);
        let mut is_lost = false;
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<io::Error>() {
                is_lost |= matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionReset
                        | io::ErrorKind::ConnectionAborted
                        | io::ErrorKind::BrokenPipe
                        | io::ErrorKind::UnexpectedEof
                );
            }
            if let Some(error) = error.downcast_ref::<hyper::Error>() {
                is_lost |= error.is_canceled() || error.is_closed() || error.is_incomplete_message();
            }
            cause = error.source();
        }
        let again = if is_lost { Again::Yes } else { Again::No };
        Failure { error: self.unreachable(describe(error)), again }
    }
}

/// What can be understood of an answer with another code (WH-31).
fn refused(code: StatusCode, headers: &HeaderMap, body: &[u8], token: Option<&str>) -> Failure {
    let Refusal { message, reason, retry_after } = Refusal::read(code, body);
    let header = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let again = match header.or(retry_after) {
        Some(seconds) => Again::After(Duration::from_secs(seconds)),
        None if is_passing(code.as_u16(), &reason) => Again::Yes,
        None => Again::No,
    };
    let message = told(&message, token);
    Failure { error: ReviewError::Refused { code: code.as_u16(), message }, again }
}

/// What comes of something, if it comes in time.
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
