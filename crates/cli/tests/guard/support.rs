//! A fake kubelet, an API server, and the guard between them.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use portcullis_testkit::https::{Answer, Client, Identity};
use portcullis_testkit::kubelet::{FakeKubelet, Options};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::wait::until_some;
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// All three. Users are known by tokens: that of `jane` is `jane-token`.
pub(crate) struct Guarded {
    pub(crate) kubelet: FakeKubelet,
    pub(crate) guard: Process,
    pub(crate) served: Running,
    pub(crate) api: SocketAddr,
    pub(crate) scratch: Scratch,
    admin: Mutex<Client>,
}

/// A guard that runs.
pub(crate) struct Process {
    running: Running,
    pub(crate) address: SocketAddr,
}

impl Process {
    pub(crate) fn id(&self) -> u32 {
        self.running.id()
    }

    /// The guard's log.
    pub(crate) fn said(&self) -> String {
        self.running.log()
    }

    /// Where it serves its metrics, if `--metrics-bind-address` is `127.0.0.1:0`.
    pub(crate) fn figures(&self) -> SocketAddr {
        until_some("the address of the metrics", || {
            let said = self.said();
            let line = said.lines().find(|line| line.contains("answering /healthz"))?;
            line.rsplit_once("address=")?.1.trim().parse().ok()
        })
    }
}

/// Users whose tokens the API server knows.
pub(crate) const USERS: [&str; 6] = ["jane", "joe", "monitoring", "apiserver", "nobody", "cluster-admin"];

impl Guarded {
    /// A guard with these flags, before a kubelet with every handler on.
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::before(Options::default(), flags)
    }

    pub(crate) fn before(options: Options, flags: &[&str]) -> Self {
        let users: Vec<String> = USERS.iter().map(|user| (*user).to_owned()).collect();
        Self::with_users(&users, options, &[], flags)
    }

    /// The same, with other users and flags of the API server.
    pub(crate) fn with_users(users: &[String], options: Options, api: &[&str], flags: &[&str]) -> Self {
        let scratch = Scratch::new();
        let folder = scratch.path().join("kubelet");
        fs::create_dir(&folder).unwrap();
        let kubelet = FakeKubelet::start(&folder, options);
        kubelet.client_certificate("guard", "portcullis-guard", &[]);
        let tokens: String = users.iter().map(|user| format!("{user}-token,{user},{user}-uid\n")).collect();
        fs::write(scratch.path().join("tokens.csv"), tokens).unwrap();
        let data = scratch.path().join("data");
        let mut command = program!().serve_command(&data);
        command.args(api).arg("--token-auth-file").arg(scratch.path().join("tokens.csv"));
        let served = Running::start(command);
        let api = served.address();
        let admin = Mutex::new(Client::new(api, &Identity::admin(&data)));
        let kubeconfig = data.join("admin.kubeconfig");
        let guard = spawn(&scratch, &kubeconfig, kubelet.address(), flags);
        Self { kubelet, guard, served, api, scratch, admin }
    }

    /// Another guard with these flags, before the same kubelet.
    pub(crate) fn another(&self, flags: &[&str]) -> Process {
        spawn(&self.scratch, &self.data().join("admin.kubeconfig"), self.kubelet.address(), flags)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    pub(crate) fn admin(&self, code: u16, method: &str, path: &str, body: Option<&Value>) -> Value {
        self.admin.lock().unwrap().must(code, method, path, body)
    }

    /// Grants a user a verb on a resource such as `nodes/proxy`, beside what was granted before.
    pub(crate) fn grant(&self, user: &str, verb: &str, resource: &str) {
        let name = format!("{user}-{verb}-{resource}").replace('*', "any").replace('/', "-");
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": [resource], "verbs": [verb]}],
        });
        self.admin(201, "POST", &format!("{RBAC}/clusterroles"), Some(&role));
        self.bind(&name, "User", user, &name);
    }

    /// Binds a role to a user or a group.
    pub(crate) fn bind(&self, name: &str, kind: &str, subject: &str, role: &str) {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "subjects": [{"kind": kind, "apiGroup": "rbac.authorization.k8s.io", "name": subject}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        });
        self.admin(201, "POST", &format!("{RBAC}/clusterrolebindings"), Some(&binding));
    }

    /// Takes a grant away.
    pub(crate) fn revoke(&self, user: &str, verb: &str, resource: &str) {
        let name = format!("{user}-{verb}-{resource}").replace('*', "any").replace('/', "-");
        self.admin(200, "DELETE", &format!("{RBAC}/clusterrolebindings/{name}"), None);
    }

    /// Who shows the token of a user to the guard.
    pub(crate) fn user(&self, user: &str) -> Identity {
        Identity::with_token(&self.kubelet.authority(), &format!("{user}-token"))
    }

    /// Who shows nothing.
    pub(crate) fn nobody(&self) -> Identity {
        Identity::anonymous(&self.kubelet.authority())
    }

    /// A connection of a user to the guard.
    pub(crate) fn client(&self, user: &str) -> Client {
        Client::new(self.guard.address, &self.user(user))
    }

    /// One request of a user to the guard.
    #[track_caller]
    pub(crate) fn ask(&self, user: &str, method: &str, path: &str) -> Answer {
        self.client(user).ask(method, path, None).unwrap_or_else(|e| panic!("{method} {path}: {e}"))
    }

    pub(crate) fn code(&self, user: &str, method: &str, path: &str) -> u16 {
        self.ask(user, method, path).code
    }
}

/// Flags of a guard before a kubelet.
pub(crate) fn command(scratch: &Scratch, kubeconfig: &Path, kubelet: SocketAddr, flags: &[&str]) -> Command {
    let folder = scratch.path().join("kubelet");
    let mut command = program!().command(["guard"]);
    command
        .args(["--address", "127.0.0.1", "--port", "0", "--node-name", "node-1", "--kubeconfig"])
        .arg(kubeconfig)
        .arg("--tls-cert-file")
        .arg(folder.join("kubelet.pem"))
        .arg("--tls-private-key-file")
        .arg(folder.join("kubelet-key.pem"))
        .arg("--client-ca-file")
        .arg(scratch.path().join("data/ca.crt"))
        .args(["--kubelet-address", &kubelet.to_string(), "--kubelet-certificate-authority"])
        .arg(folder.join("kubelet-ca.pem"))
        .arg("--kubelet-client-certificate")
        .arg(folder.join("guard.pem"))
        .arg("--kubelet-client-key")
        .arg(folder.join("guard-key.pem"))
        .args(flags);
    command
}

/// A guard whose clients' authorities are in this file.
pub(crate) fn with_client_authority(guarded: &Guarded, bundle: &Path) -> Process {
    let kubeconfig = guarded.data().join("admin.kubeconfig");
    let command = command(&guarded.scratch, &kubeconfig, guarded.kubelet.address(), &[]);
    let mut other = Command::new(command.get_program());
    let own = guarded.data().join("ca.crt");
    other
        .args(command.get_args().map(|argument| if argument == own { bundle.as_os_str() } else { argument }));
    run(other)
}

/// The same command without a flag and its value.
pub(crate) fn without(command: &Command, flag: &str) -> Command {
    let mut other = Command::new(command.get_program());
    let mut is_value = false;
    for argument in command.get_args() {
        if argument != flag && !is_value {
            other.arg(argument);
        }
        is_value = argument == flag;
    }
    other
}

fn spawn(scratch: &Scratch, kubeconfig: &Path, kubelet: SocketAddr, flags: &[&str]) -> Process {
    run(command(scratch, kubeconfig, kubelet, flags))
}

/// Starts a guard, and waits until it is ready.
pub(crate) fn run(command: Command) -> Process {
    let running = Running::start(command);
    Process { address: running.address(), running }
}
