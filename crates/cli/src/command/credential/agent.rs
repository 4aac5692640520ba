//! What the commands that run the agent have in common: its name, its progress on standard error, its errors.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::SystemTime;

use portcullis_client::node_certificate::agent::{Observer, Progress};
use portcullis_client::node_certificate::error::CredentialError;

use crate::failure::Failure;

/// The name of a node, unless another is given.
pub(super) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().trim().to_lowercase()
}

/// The exit code and message of an error.
pub(super) fn failure(error: CredentialError) -> Failure {
    match error {
        CredentialError::Refused { .. }
        | CredentialError::Foreign { .. }
        | CredentialError::Useless { .. }
        | CredentialError::Ended(_) => Failure::refused(error),
        CredentialError::Call(ref call) if call.code().is_some_and(|code| code < 500) => {
            Failure::refused(format_args!("the server does not let us ask for a certificate: {error}"))
        }
        CredentialError::Call(_)
        | CredentialError::Gone(_)
        | CredentialError::Held { .. }
        | CredentialError::Pending { .. }
        | CredentialError::Stopped => Failure::unreachable(error),
        _ => Failure::input(error),
    }
}

/// Returns an observer that reports the progress on standard error.
pub(super) fn narrator(node_name: String) -> Observer {
    Arc::new(move |progress| {
        if let Some(line) = line(progress, &node_name) {
            // Errors of standard error are ignored.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
        ControlFlow::Continue(())
    })
}

fn line(progress: &Progress<'_>, node_name: &str) -> Option<String> {
    Some(match progress {
        Progress::Requested { name, was_there: true } => format!("found the request {name} again"),
        Progress::Requested { name, was_there: false } => format!("asked for a certificate: {name}"),
        Progress::Waiting { name, since, is_approved: false } => format!(
            "waiting for approval of {name}, {node_name}, since {} s; approve with: kubectl certificate approve {name}",
            since.as_secs()
        ),
        Progress::Waiting { name, since, is_approved: true } => {
            format!("waiting for the signature of {name}, {node_name}, since {} s", since.as_secs())
        }
        Progress::Trouble { why, retry_in } if retry_in.is_zero() => (*why).to_owned(),
        Progress::Trouble { why, retry_in } => {
            format!("{why}; trying again in {} s", retry_in.as_secs().max(1))
        }
        Progress::KubeconfigWritten { path } => format!("wrote {}", path.display()),
        Progress::Switched => format!("there is a new certificate for {node_name}"),
        Progress::Resting { not_after, until } => format!(
            "the certificate is valid for {} s, and will be replaced in {} s",
            seconds_to(*not_after),
            seconds_to(*until)
        ),
        Progress::KeyReady | Progress::Received | Progress::Written | Progress::KeyForgotten => return None,
    })
}

fn seconds_to(date: SystemTime) -> u64 {
    date.duration_since(SystemTime::now()).unwrap_or_default().as_secs()
}
