//! Decides the requests of an API server: who may do what, while objects come and go. `docs/embedding.md` explains it.
#![allow(clippy::disallowed_methods, reason = "a program prints; the library does not")]

use std::io::Write;

use portcullis_policy::{EngineConfig, Kind, LiveEngine, Mode, RequestInfo, User};

const POD: &str = r#"{"metadata": {"namespace": "web", "name": "shop"}, "spec": {"nodeName": "node-1",
    "volumes": [{"name": "v", "secret": {"secretName": "database"}}]}}"#;

/// Answers a request of an authenticated user: the status code, and why it is refused.
fn answer(engine: &LiveEngine, user: &User, method: &str, target: &str) -> (u16, String) {
    let request = match RequestInfo::parse(method, target) {
        Ok(request) => request,
        Err(error) => return (400, error.to_string()),
    };
    let attributes = request.attributes(user);
    let outcome = engine.authorize(&attributes);
    if outcome.is_allow() { (200, String::new()) } else { (403, outcome.reason(&attributes)) }
}

pub(crate) fn run(out: &mut impl Write) -> Result<(), Box<dyn std::error::Error>> {
    let config = EngineConfig { modes: vec![Mode::Node, Mode::Rbac], ..EngineConfig::default() };
    let engine = LiveEngine::new(&config)?;
    engine.apply_json(Kind::Pod, "web", "shop", POD)?; // Each object that the store has, ...
    engine.mark_complete(); // ... and that these are all.

    let secret = "/api/v1/namespaces/web/secrets/database";
    for node in ["node-1", "node-2"] {
        let kubelet = User::new(format!("system:node:{node}"), ["system:nodes", "system:authenticated"]);
        writeln!(out, "{node}: {:?}", answer(&engine, &kubelet, "GET", secret))?;
    }
    engine.delete(Kind::Pod, "web", "shop"); // Each change, in the order of the store.
    let kubelet = User::new("system:node:node-1", ["system:nodes", "system:authenticated"]);
    writeln!(out, "node-1 without the pod: {:?}", answer(&engine, &kubelet, "GET", secret))?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    run(&mut std::io::stdout())
}
