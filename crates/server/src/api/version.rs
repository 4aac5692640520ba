//! `/version`.

use http::request::Parts;
use http::{Method, StatusCode};
use serde::Serialize;

use crate::authz::Permit;
use crate::http::negotiate;
use crate::http::status::{Answer, Status, json};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    major: &'static str,
    minor: &'static str,
    git_version: &'static str,
    git_commit: &'static str,
    git_tree_state: &'static str,
    build_date: &'static str,
    go_version: &'static str,
    compiler: &'static str,
    platform: &'static str,
}

/// Returns the Kubernetes version that is emulated, with the version of Portcullis appended.
pub(crate) fn answer(_permit: Permit, head: &Parts) -> Result<Answer, Status> {
    if head.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    negotiate::only(&head.headers, "application/json")?;
    Ok(json(
        StatusCode::OK,
        &Version {
            major: "1",
            minor: "36",
            git_version: concat!("v1.36.0+portcullis.", env!("CARGO_PKG_VERSION")),
            git_commit: "",
            git_tree_state: "",
            build_date: "",
            go_version: "",
            compiler: "rustc",
            platform: PLATFORM,
        },
    ))
}

const PLATFORM: &str = match (cfg!(target_arch = "x86_64"), cfg!(target_arch = "aarch64")) {
    (true, _) => "linux/amd64",
    (_, true) => "linux/arm64",
    _ => "linux/unknown",
};
