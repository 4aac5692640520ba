//! Explains why a request is refused, and what would allow it. `docs/embedding.md` explains it.
#![allow(clippy::disallowed_methods, reason = "a program prints; the library does not")]

use std::io::Write;

use portcullis_policy::{Engine, EngineConfig, Mode, RequestInfo, User};

const ROLE: &str = r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
    "metadata": {"namespace": "web", "name": "settings"},
    "rules": [{"verbs": ["get", "update"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["theme"]}]}"#;
const BINDING: &str = r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
    "metadata": {"namespace": "web", "name": "designers"},
    "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "design"}],
    "roleRef": {"kind": "Role", "apiGroup": "rbac.authorization.k8s.io", "name": "settings"}}"#;

pub(crate) fn run(out: &mut impl Write) -> Result<(), Box<dyn std::error::Error>> {
    let config = EngineConfig { modes: vec![Mode::Node, Mode::Rbac], ..EngineConfig::default() };
    let engine = Engine::from_json(config, [ROLE, BINDING])?;
    let dora = User::new("dora", ["design", "system:authenticated"]);
    for name in ["theme", "prices"] {
        let request = RequestInfo::parse("PUT", &format!("/api/v1/namespaces/web/configmaps/{name}"))?;
        let explanation = engine.explain(&request.attributes(&dora));
        writeln!(out, "{name}: {}\n{explanation}", if explanation.allowed { "allowed" } else { "refused" })?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    run(&mut std::io::stdout())
}
