//! `/livez`, `/readyz` and `/healthz`, and their individual checks (AP-103).

use std::fmt::Write as _;

use http::StatusCode;
use http::request::Parts;
use portcullis_apimachinery::quote::quoted;

use super::app::App;
use super::check::Check;
use super::route::Probe;
use crate::authz::Permit;
use crate::http::query;
use crate::http::status::{Answer, page_not_found, text};

/// Runs all checks of an endpoint, or the one that the path names. Any method.
pub(crate) fn answer(_permit: Permit, app: &App, probe: Probe, path: &str, head: &Parts) -> Answer {
    let checks = || app.checks().iter().filter(|c| c.is_vital || probe == Probe::Readyz);
    let single = path.get(probe.name().len() + 1..).and_then(|rest| rest.strip_prefix('/'));
    let Some(name) = single else {
        return all(app, checks(), probe, head.uri.query().unwrap_or_default());
    };
    let Some(check) = checks().find(|c| c.name == name) else { return page_not_found() };
    match (check.run)() {
        Ok(()) => text(StatusCode::OK, "ok"),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {error}\n")),
    }
}

/// The reason for a failure is left out of the response, because everybody may read it.
fn all<'a>(app: &App, checks: impl Iterator<Item = &'a Check>, probe: Probe, query: &str) -> Answer {
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
            app.metrics().health.checked(probe, name, outcome.is_ok());
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
