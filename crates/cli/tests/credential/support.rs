//! A cluster that nodes can join, with an approver and a signer.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_pki::usage::Usages;
use portcullis_pki::{CertificateAuthority, Csr, pem};
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
pub(crate) use portcullis_testkit::tool::{Finished, run as tool};
use serde_json::{Value, json};

pub(crate) const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
/// Who asks for first certificates.
pub(crate) const BOOTSTRAPPER: &str = "system:bootstrap:abcdef";

pub(crate) struct Cluster {
    pub(crate) scratch: Scratch,
    _served: Running,
    pub(crate) address: SocketAddr,
}

impl Cluster {
    /// Nobody approves and signs, until there is a [`Signer`].
    pub(crate) fn start() -> Self {
        Self::with(&["--controllers", "*,-csrapproving,-csrsigning"])
    }

    /// The server itself approves renewals, and signs what is approved.
    pub(crate) fn that_signs() -> Self {
        Self::with(&[])
    }

    fn with(flags: &[&str]) -> Self {
        let scratch = Scratch::new();
        let data = scratch.path().join("data");
        let tokens =
            scratch.write("tokens.csv", format!("sesame,{BOOTSTRAPPER},1,\"system:bootstrappers\"\n"));
        let mut command = program!().serve_command(&data);
        command.arg("--token-auth-file").arg(tokens).args(flags);
        let served = Running::start(command);
        let address = served.address();
        let cluster = Self { scratch, _served: served, address };
        let binding = json!({"metadata": {"name": "bootstrap"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:bootstrappers"}]});
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        cluster.admin().must(201, "POST", path, Some(&binding));
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'https://{address}', \
             certificate-authority: data/ca.crt}}}}]\nusers: [{{name: u, user: {{token: sesame}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        );
        let path = cluster.scratch.write("bootstrap.kubeconfig", kubeconfig);
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        cluster
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    pub(crate) fn admin(&self) -> Client {
        Client::new(self.address, &Identity::admin(&self.data()))
    }

    /// The requests that nodes have made.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.admin().must(200, "GET", REQUESTS, None)["items"].as_array().unwrap().clone()
    }

    /// `portcullis credential` for one node, with all its files beside each other.
    pub(crate) fn credential(&self, flags: &[&str]) -> Command {
        let mut command =
            program!().command(["credential", "--node-name", "node-1", "--bootstrap-kubeconfig"]);
        command.arg(self.path("bootstrap.kubeconfig")).arg("--kubeconfig").arg(self.path("node.kubeconfig"));
        command.arg("--cert-dir").arg(self.path("pki")).args(flags).env_remove("KUBERNETES_EXEC_INFO");
        command
    }

    /// Runs it to its end. A shell runs what is in `before` first.
    pub(crate) fn run(&self, before: &str, flags: &[&str]) -> Finished {
        let credential = self.credential(flags);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{before} exec \"$@\""), "sh"]).arg(credential.get_program());
        command.args(credential.get_args()).env_remove("KUBERNETES_EXEC_INFO");
        Finished::of(&mut command)
    }

    pub(crate) fn once(&self) -> Finished {
        self.run("", &["--once", "--wait", "60"])
    }

    /// The files of certificates, with their dates in their names.
    pub(crate) fn pairs(&self) -> Vec<PathBuf> {
        let names = fs::read_dir(self.path("pki")).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.to_str().unwrap().contains("kubelet-client-2")).collect()
    }
}

pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// What an openssl of its own thinks of a pair: key and certificate belong together, and the cluster vouches for it.
#[track_caller]
pub(crate) fn openssl_accepts(cluster: &Cluster, pair: &Path) {
    let (pair, authority) = (pair.to_str().unwrap(), cluster.path("data/ca.crt"));
    let certificates = tool("openssl", ["x509", "-in", pair, "-noout", "-pubkey"]);
    assert_eq!(certificates, tool("openssl", ["pkey", "-in", pair, "-pubout"]));
    tool("openssl", ["verify", "-purpose", "sslclient", "-CAfile", authority.to_str().unwrap(), pair]);
    let subject = tool("openssl", ["x509", "-in", pair, "-noout", "-subject", "-nameopt", "RFC2253"]);
    assert_eq!(subject.trim(), "subject=CN=system:node:node-1,O=system:nodes");
}

/// Somebody who approves and signs whatever is asked for, until dropped.
pub(crate) struct Signer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How long what is signed here is valid.
pub(crate) const LIFETIME: Duration = Duration::from_secs(24 * 3600);

impl Signer {
    pub(crate) fn start(cluster: &Cluster) -> Self {
        Self::at(cluster, SystemTime::now)
    }

    /// One who goes by another clock.
    pub(crate) fn at(cluster: &Cluster, now: impl Fn() -> SystemTime + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut admin = cluster.admin();
        let read = |name: &str| fs::read(cluster.data().join(name)).unwrap();
        let authority = CertificateAuthority::from_pem(&read("ca.crt"), &read("ca.key")).unwrap();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let listed = admin.must(200, "GET", REQUESTS, None);
                for request in listed["items"].as_array().unwrap() {
                    if request["status"]["certificate"].is_null() {
                        sign(&mut admin, &authority, request, now());
                    }
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Signer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

fn sign(admin: &mut Client, authority: &CertificateAuthority, request: &Value, now: SystemTime) {
    let path = format!("{REQUESTS}/{}", request["metadata"]["name"].as_str().unwrap());
    let asked = STANDARD.decode(request["spec"]["request"].as_str().unwrap()).unwrap();
    let usages: Vec<&str> =
        request["spec"]["usages"].as_array().unwrap().iter().map(|usage| usage.as_str().unwrap()).collect();
    let seconds = request["spec"]["expirationSeconds"].as_u64().map(Duration::from_secs);
    let certificate = authority
        .issue_requested(
            &Csr::from_pem(&asked).unwrap(),
            &Usages::named(usages).unwrap(),
            seconds,
            LIFETIME,
            now,
        )
        .unwrap();
    condition(admin, &path, "Approved");
    let mut approved = admin.must(200, "GET", &path, None);
    approved["status"]["certificate"] = STANDARD.encode(pem::encode("CERTIFICATE", &certificate)).into();
    admin.must(200, "PUT", &format!("{path}/status"), Some(&approved));
}

/// Approves or denies.
pub(crate) fn condition(admin: &mut Client, path: &str, kind: &str) {
    let mut request = admin.must(200, "GET", path, None);
    request["status"]["conditions"] =
        json!([{"type": kind, "status": "True", "reason": "Tested", "message": "so it is"}]);
    admin.must(200, "PUT", &format!("{path}/approval"), Some(&request));
}
