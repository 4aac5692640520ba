//! Confirms with the API server that a new credential is accepted, before anybody is told to use it.

use std::time::Duration;

use clap::Args;
use http::Method;
use portcullis_client::connect::Credential;
use portcullis_client::{CallError, Connection};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::cluster::text;
use super::common::duration;
use crate::failure::Failure;

const PATH: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
/// The first and the longest pause between two reviews.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The interval at which the user is told what the command waits for.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// The flags of the confirmation.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct WaitFlags {
    /// How long to wait until the API server accepts the new credential
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(super) timeout: Duration,
}

/// Reviews the holder of a credential (SelfSubjectReview) until the API server says that it is this user.
///
/// # Errors
/// The server does not say so within the timeout; the message contains its last answer.
pub(super) async fn confirm(
    connection: &Connection,
    credential: Credential,
    user: &str,
    timeout: Duration,
) -> Result<(), Failure> {
    let holder = connection.with_credential(credential).await.map_err(Failure::input)?;
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string();
    let (begun, mut pause) = (Instant::now(), PAUSE);
    let mut tell_at = begun + TELL_EVERY;
    loop {
        let body = Some(("application/json", body.clone().into_bytes()));
        let left = (begun + timeout).saturating_duration_since(Instant::now()).max(PAUSE);
        let answer = tokio::time::timeout(left, holder.call::<Value>(Method::POST, PATH, body)).await;
        let why = match answer {
            Err(_) => "no answer".to_owned(),
            Ok(Err(error @ CallError::Unreachable { .. })) => return Err(Failure::unreachable(error)),
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(review)) => match text(&review, &["status", "userInfo", "username"]) {
                name if name == user => return Ok(()),
                name => format!("it authenticates as {name:?}"),
            },
        };
        if begun.elapsed() >= timeout {
            return Err(Failure::unreachable(format_args!(
                "{} does not accept the new credential of {user} after {} s: {why}",
                connection.server(),
                timeout.as_secs_f64()
            )));
        }
        if Instant::now() >= tell_at {
            tell_at += TELL_EVERY;
            eprintln!("waiting until {} accepts the new credential: {why}", connection.server());
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
