//! kubectl through the server to a kubelet: logs, exec, cp, attach, port-forward and proxies.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Command, Stdio};

use portcullis_testkit::kubelet::{FakeKubelet, Options};
use portcullis_testkit::process::{most_resident_bytes, resident_bytes};
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool;
use portcullis_testkit::wait::until_ok;

use crate::kubectl::support::Served;

const POD: &str = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}, "spec": {
    "nodeName": "node-1", "automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}]}}"#;
/// The size of the log and of the stream that the tests pass through, in bytes.
const MUCH: u64 = 1 << 30;
/// The most by which the resident memory of the server may grow meanwhile, in bytes.
const LITTLE: usize = 24 << 20;

/// A server, a kubelet whose containers run commands in `container` in the scratch folder, and a pod `ns/p` there.
struct Running {
    kubelet: FakeKubelet,
    served: Served,
}

impl Running {
    fn start(options: Options) -> Self {
        let scratch = Scratch::new();
        let container = scratch.path().join("container");
        fs::create_dir(&container).unwrap();
        let folder = scratch.path().join("kubelet");
        let kubelet = FakeKubelet::start(&folder, Options { shell: Some(container), ..options });
        let (certificate, key) =
            kubelet.client_certificate("apiserver", "kube-apiserver-kubelet-client", &[]);
        let flag = |name: &str, file: &std::path::Path| format!("--kubelet-{name}={}", file.display());
        let flags = [
            flag("client-certificate", &certificate),
            flag("client-key", &key),
            flag("certificate-authority", &kubelet.authority()),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            "--kubelet-allowed-cidrs=127.0.0.0/8".to_owned(),
            // The node stays healthy without a heartbeat, and the pod where it is.
            "--controllers=*,-node-lifecycle-controller".to_owned(),
        ];
        let served = Served::start_in(scratch, &flags.iter().map(String::as_str).collect::<Vec<_>>());
        served.ok("create namespace ns");
        served.ok_with(
            "create -f -",
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}"#,
        );
        let port = kubelet.address().port();
        let status = format!(
            r#"{{"status": {{"addresses": [{{"type": "InternalIP", "address": "127.0.0.1"}}],
                "daemonEndpoints": {{"kubeletEndpoint": {{"Port": {port}}}}}}}}}"#
        );
        let patch = |of: &str, patch: &str| {
            served.ok(&format!("patch {of} --subresource=status --type=merge -p '{patch}'"));
        };
        patch("node node-1", &status);
        // Its account may still have to be made.
        until_ok("a pod is made", || match served.kubectl_with("create -f -", POD) {
            done if done.code == 0 => Ok(()),
            done => Err(done.stderr),
        });
        patch("pod p -n ns", r#"{"status": {"phase": "Running"}}"#);
        Self { kubelet, served }
    }

    /// The protocols that were asked for to this path, in order.
    fn upgrades(&self, path: &str) -> Vec<String> {
        let seen = self.kubelet.requests();
        let of_path = seen.iter().filter(|seen| seen.path.starts_with(path));
        of_path.filter_map(|seen| seen.header("upgrade").map(str::to_owned)).collect()
    }
}

/// A kubectl that runs, ended with the test.
struct Started(Child);

impl Started {
    fn run(served: &Served, line: &str) -> Self {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("exec kubectl {line}")])
            .env("KUBECONFIG", served.data().join("admin.kubeconfig"))
            .env("HOME", served.scratch.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn kubectl_reads_logs_and_follows_them() {
    let running = Running::start(Options { follow_lines: Some(5), ..Options::default() });
    let served = &running.served;
    assert_eq!(served.ok("logs p -n ns"), "line 1\nline 2\nline 3");
    assert_eq!(served.ok("logs -f p -n ns -c c"), "line 1\nline 2\nline 3\nline 4\nline 5");
    assert!(served.fails("logs p -n ns -c x").contains("container x is not valid for pod p"));
    served.ok("logs p -n ns --tail=7 --timestamps --since=1h --limit-bytes=100 --previous");
    let seen = running.kubelet.requests();
    let path =
        "/containerLogs/ns/p/c?limitBytes=100&previous=true&sinceSeconds=3600&tailLines=7&timestamps=true";
    assert_eq!(seen.last().unwrap().path, path);
    assert!(served.fails("logs p -n ns --tail=-5").contains("--tail"));
}

#[test]
fn kubectl_runs_commands_copies_files_and_attaches() {
    let running = Running::start(Options::default());
    let served = &running.served;
    // A kubelet that does not know the newest subprotocol, and then one that does (KA-84).
    for protocol in ["SPDY/3.1", "websocket"] {
        running.kubelet.forget();
        assert_eq!(served.ok("exec p -n ns -- echo hello there"), "hello there");
        assert_eq!(running.upgrades("/exec"), [protocol]);
        // A command that reads to the end of its input: only that end is closed.
        assert_eq!(served.ok_with("exec -i p -n ns -- sort", "b\na\n"), "a\nb");
        let failed = served.kubectl("exec p -n ns -- sh -c 'echo out; echo err >&2; exit 3'");
        assert_eq!((failed.code, failed.stdout.as_str()), (3, "out\n"));
        assert!(failed.stderr.starts_with("err\n"), "{}", failed.stderr);
        assert_eq!(served.ok_with("attach -i p -n ns -c c", "to cat\n").lines().last(), Some("to cat"));

        let (from, back) = (served.scratch.write("from", "copied"), served.scratch.path().join("back"));
        let there = served.scratch.path().join("container/there");
        served.ok(&format!("cp {} ns/p:{}", from.display(), there.display()));
        assert_eq!(fs::read_to_string(&there).unwrap(), "copied");
        served.ok(&format!("cp ns/p:{} {}", there.display(), back.display()));
        assert_eq!(fs::read_to_string(back).unwrap(), "copied");

        let features = r#"{"status": {"declaredFeatures": ["ExtendWebSocketsToKubelet"]}}"#;
        served.ok(&format!("patch node node-1 --subresource=status --type=merge -p '{features}'"));
    }
}

#[test]
fn kubectl_runs_a_command_on_a_terminal() {
    let running = Running::start(Options::default());
    let served = &running.served;
    tool::require("python3");
    let line = "kubectl exec -it p -n ns -- sh -c 'read line; echo got $line'";
    let script = format!("import pty, sys; sys.exit(pty.spawn(['sh', '-c', {line:?}]) >> 8)");
    let mut command = Command::new("python3");
    command.args(["-c", &script]).env("KUBECONFIG", served.data().join("admin.kubeconfig"));
    let done = tool::Finished::with_input(command.env("HOME", served.scratch.path()), b"words\n");
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stdout.contains("got words"), "{done:?}");
    let seen = running.kubelet.requests();
    assert!(seen.last().unwrap().path.ends_with("&input=1&output=1&tty=1"), "{seen:?}");
}

#[test]
fn kubectl_forwards_ports() {
    let running = Running::start(Options::default());
    let mut forwarding = Started::run(&running.served, "port-forward p :80 -n ns");
    let mut line = String::new();
    BufReader::new(forwarding.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next());
    let port: u16 = port.unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let sent: Vec<u8> = (0..200_000).map(|at: u32| at as u8).collect();
        let writing = stream.try_clone().unwrap();
        let bytes = sent.clone();
        let writer = std::thread::spawn(move || {
            let mut writing = writing;
            writing.write_all(&bytes).unwrap();
            writing.shutdown(Shutdown::Write).unwrap();
        });
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        writer.join().unwrap();
        assert!(came == sent, "{} bytes", came.len());
    }
    assert_eq!(running.upgrades("/portForward"), ["SPDY/3.1"]);
}

#[test]
fn kubectl_reaches_what_a_kubelet_serves() {
    let running = Running::start(Options::default());
    let served = &running.served;
    assert_eq!(served.ok("get --raw /api/v1/nodes/node-1/proxy/healthz"), "ok");
    assert!(served.ok("get --raw /api/v1/nodes/node-1/proxy/stats/summary").contains("node-1"));
    let port = running.kubelet.address().port();
    assert_eq!(served.ok(&format!("get --raw /api/v1/nodes/node-1:{port}/proxy/healthz")), "ok");
    let said = served.fails("get --raw /api/v1/nodes/node-1/proxy/nosuch");
    assert!(said.contains("could not find the requested resource"), "{said}");
}

#[test]
fn much_goes_through_while_little_is_held() {
    let options = Options { log_bytes: Some(MUCH), log: false, ..Options::default() };
    let running = Running::start(options);
    let served = &running.served;
    let before = resident_bytes(served.id());
    assert_eq!(served.ok("logs p -n ns | wc -c"), MUCH.to_string());
    let zeros = format!("exec p -n ns -- head -c {MUCH} /dev/zero | wc -c");
    assert_eq!(served.ok(&zeros), MUCH.to_string());
    let sink = format!("exec -i p -n ns -- wc -c < {}", served.scratch.path().join("zeros").display());
    fs::File::create(served.scratch.path().join("zeros")).unwrap().set_len(MUCH).unwrap();
    assert_eq!(served.ok(&sink), MUCH.to_string());
    let most = most_resident_bytes(served.id());
    assert!(most < before + LITTLE, "{before} bytes became {most}");
}
