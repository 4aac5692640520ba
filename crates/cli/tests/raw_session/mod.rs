//! A recorded session of a kubelet, a controller manager and kubectl 1.36, byte for byte: `portcullis serve`
//! understands every body that they send. The script that came with the recording sends them.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use portcullis_testkit::{program, recorded};

const SESSION: &str = "data/kubelet-1.36-raw";

#[test]
fn every_recorded_body_of_kubelet_controller_manager_and_kubectl_is_understood() {
    let scratch = Scratch::new();
    let [script, bodies] =
        ["replay.py", "bodies.jsonl"].map(|name| recorded::unpacked(&scratch, &format!("{SESSION}/{name}")));
    let data = scratch.path().join("data");
    let mut command = program!().serve_command(&data);
    // The recording has what the controllers did.
    command.arg("--controllers=");
    let served = Running::start(command);
    let mut replay = tool::command("python3");
    replay.arg(script).arg("--kubeconfig").arg(data.join("admin.kubeconfig")).arg(bodies);
    let Finished { code, stdout, stderr } = Finished::of(&mut replay);
    assert_eq!(code, 0, "{stdout}{stderr}");
    let last = stdout.lines().last().unwrap_or_default();
    let sent = last.strip_suffix(" sent, 0 differ").and_then(|count| count.parse().ok());
    assert!(sent.is_some_and(|count: u32| count > 1200), "{stdout}{stderr}");
    // Every kind is there, and every object that Kubernetes starts with.
    assert!(!stdout.contains("404 for"), "{stdout}{stderr}");
    assert_eq!(served.stop().code, 0);
}
