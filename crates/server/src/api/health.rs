//! `/livez`, `/readyz` and `/healthz`, and their individual checks (AP-103).

use std::fmt::Write as _;

use http::StatusCode;
use portcullis_apimachinery::quote::quoted;

use super::check::Check;
use super::route::Probe;
use crate::http::query;
use crate::http::status::{Answer, page_not_found, text};

/// Runs those of these checks that an endpoint has, or the one that the path names. Any method. The results of all checks
/// together are told to `record`. The caller has made sure that whoever asks may know.
pub(super) fn answer(
    checks: &[Check],
    (probe, path, query): (Probe, &str, &str),
    record: impl Fn(&'static str, bool),
) -> Answer {
    let mut checks = checks.iter().filter(|check| check.endpoints.contains(&probe));
    let single = path.strip_prefix(probe.path()).and_then(|rest| rest.strip_prefix('/'));
    let Some(name) = single else { return all(checks, probe, query, record) };
    let Some(check) = checks.find(|check| check.name == name) else { return page_not_found() };
    match (check.run)() {
        Ok(()) => text(StatusCode::OK, "ok"),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {error}\n")),
    }
}

/// The reason for a failure is left out of the response, because everybody may read it.
fn all<'a>(
    checks: impl Iterator<Item = &'a Check>,
    probe: Probe,
    query: &str,
    record: impl Fn(&'static str, bool),
) -> Answer {
    let mut excluded = query::values(query, "exclude");
    let mut list = String::new();
    let mut failed = false;
    for check in checks {
        let name = check.name;
        let line = if excluded.iter().any(|e| e == name) {
            excluded.retain(|e| e != name);
            writeln!(list, "[+]{name} excluded: ok")
        } else {
            let outcome = (check.run)();
            record(name, outcome.is_ok());
            match outcome {
                Ok(()) => writeln!(list, "[+]{name} ok"),
                Err(error) => {
                    failed = true;
                    tracing::warn!(probe = probe.name(), check = name, error, "health check failed");
                    writeln!(list, "[-]{name} failed: reason withheld")
                }
            }
        };
        let _ = line;
    }
    if !excluded.is_empty() {
        let unknown: Vec<String> = excluded.iter().map(|e| quoted(e)).collect();
        let unknown = unknown.join(", ");
        let _ = writeln!(list, "warn: some health checks cannot be excluded: no matches for {unknown}");
    }
    let name = probe.name();
    if failed {
        return text(StatusCode::INTERNAL_SERVER_ERROR, format!("{list}{name} check failed\n"));
    }
    if query::has(query, "verbose") {
        return text(StatusCode::OK, format!("{list}{name} check passed\n"));
    }
    text(StatusCode::OK, "ok")
}
