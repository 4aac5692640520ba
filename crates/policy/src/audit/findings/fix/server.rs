//! Fixes of API servers (PC106, PC108, PC125 a): other flags.
//!
//! The command line of a pod cannot be changed. It is the manifest of the static pod that is to be patched, on the machine; a mirror
//! pod has the same words in the same places.

use serde_json::{Value, json};

use super::super::control_plane::{AUDIENCE_GATE, AUDIENCES, SELECTOR_GATES, find_of_server, subject_of};
use super::super::found::{All, Found};
use super::super::standing::Standing;
use super::change::target;
use super::part::{FixKind, FixPart};
use crate::audit::state::{ApiServer, ApiServers, CommandLine};
use crate::chain::Mode;

/// The first release with the gate that restricts audiences.
const HAS_AUDIENCE_GATE: (u32, u32) = (1, 32);
const NODE_RESTRICTION: &str = "NodeRestriction";

/// The patch that ends a finding about an API server, tried in memory (AU-85): no finding about the server is added. None if no flag
/// ends it: then another release is needed, or the file with the modes is to be changed.
pub(super) fn fix(found: &Found, standing: &Standing<'_>, text: &str) -> Option<Vec<FixPart>> {
    let servers = standing.state.api_servers();
    let mut with_it = servers.servers().iter().filter(|server| subject_of(server) == found.subject);
    let server = with_it.next().filter(|_| with_it.next().is_none())?;
    let mut line = server.command_line.clone();
    match found.id {
        "PC106" => {
            set_modes(&mut line, server, servers);
            set_node_restriction(&mut line, server);
        }
        "PC108" => set_gates(&mut line, server, &|gate| !SELECTOR_GATES.contains(&gate), None),
        _ => {
            let release = server.release.or(servers.version)?;
            let is_to_be_set = (HAS_AUDIENCE_GATE..AUDIENCES).contains(&release);
            let gate = is_to_be_set.then(|| format!("{AUDIENCE_GATE}=true"));
            set_gates(&mut line, server, &|gate| gate != AUDIENCE_GATE, gate);
        }
    }
    let after = server.with(line);
    let of = |server: &ApiServer| {
        let mut all = All::default();
        find_of_server(standing, server, &mut all);
        all
    };
    let (before, left) = (of(server), of(&after));
    let is_known = |(id, subject): &(&'static str, String)| before.get(id, subject).is_some();
    if left.get(found.id, &found.subject).is_some() || !left.keys().all(is_known) {
        return None;
    }
    if after.command_line.is_reduced {
        let words = changed_words(&server.command_line, &after.command_line);
        return Some(vec![FixPart::manual(format!("{text} Flags: {words}."), Some("passed"))]);
    }
    let file = "the file of the static pod, as /etc/kubernetes/manifests/kube-apiserver.yaml";
    let place = match server.node.as_str() {
        "" => file.to_owned(),
        node => format!("{file} on node {node}"),
    };
    Some(vec![FixPart {
        kind: FixKind::Config,
        target: Some(target("v1", "Pod", &server.pod)),
        patch_type: Some("json"),
        patch: Some(Value::Array(patch(&server.command_line, &after.command_line))),
        manifest: None,
        text: format!("{text} Patch {place}; the kubelet starts the API server again."),
        self_check: Some("passed"),
    }])
}

/// Mode Node before the modes that are there, and none that allows everything.
fn set_modes(line: &mut CommandLine, server: &ApiServer, servers: &ApiServers) {
    let has = |mode| servers.has_mode(server, mode);
    if !server.flag("authorization-config").is_empty()
        || (has(Mode::AlwaysAllow) == Some(false) && has(Mode::Node) == Some(true))
    {
        return;
    }
    let mut modes: Vec<&str> = servers.modes(server).unwrap_or_default().iter().map(String::as_str).collect();
    modes.retain(|mode| *mode != Mode::AlwaysAllow.name());
    if !modes.contains(&Mode::Node.name()) {
        modes.insert(0, Mode::Node.name());
    }
    // Without it nobody but nodes could do anything.
    if modes == [Mode::Node.name()] {
        modes.push(Mode::Rbac.name());
    }
    line.set("authorization-mode", Some(&modes.join(",")));
}

fn set_node_restriction(line: &mut CommandLine, server: &ApiServer) {
    if server.has_node_restriction() {
        return;
    }
    let disabled = server.flag("disable-admission-plugins");
    if disabled.iter().any(|plugin| plugin == NODE_RESTRICTION) {
        let left: Vec<&str> =
            disabled.iter().map(String::as_str).filter(|plugin| *plugin != NODE_RESTRICTION).collect();
        line.set(
            "disable-admission-plugins",
            Some(left.join(",")).filter(|left| !left.is_empty()).as_deref(),
        );
    }
    let mut enabled = server.flag("enable-admission-plugins").to_vec();
    if !enabled.iter().any(|plugin| plugin == NODE_RESTRICTION) {
        enabled.push(NODE_RESTRICTION.to_owned());
        line.set("enable-admission-plugins", Some(&enabled.join(",")));
    }
}

/// Keeps these feature gates, and adds one.
fn set_gates(
    line: &mut CommandLine,
    server: &ApiServer,
    keeps: &dyn Fn(&str) -> bool,
    added: Option<String>,
) {
    let gates = server.flag("feature-gates").iter();
    let kept = gates.filter(|gate| keeps(gate.split('=').next().unwrap_or_default())).cloned();
    let gates: Vec<String> = kept.chain(added).collect();
    line.set("feature-gates", Some(gates.join(",")).filter(|gates| !gates.is_empty()).as_deref());
}

/// The words that go and those that come, for people: an archive does not have the whole command line to patch.
fn changed_words(from: &CommandLine, to: &CommandLine) -> String {
    let words =
        |line: &CommandLine| -> Vec<String> { line.command.iter().chain(&line.args).cloned().collect() };
    let (old, new) = (words(from), words(to));
    let gone = old.iter().filter(|word| !new.contains(word)).map(|word| format!("remove {word}"));
    let added = new.iter().filter(|word| !old.contains(word)).map(|word| format!("add {word}"));
    gone.chain(added).collect::<Vec<_>>().join(", ")
}

/// The operations from one command line to another.
fn patch(from: &CommandLine, to: &CommandLine) -> Vec<Value> {
    let lists = [("command", &from.command, &to.command), ("args", &from.args, &to.args)];
    let changed = lists.into_iter().filter(|(_, old, new)| old != new);
    let operations = changed.flat_map(|(list, old, new)| {
        let path = format!("{}/{list}", from.pointer);
        [
            json!({"op": "test", "path": path, "value": old}),
            json!({"op": "replace", "path": path, "value": new}),
        ]
    });
    operations.collect()
}
