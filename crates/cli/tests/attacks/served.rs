//! `portcullis serve` as the target of attacks.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use serde_json::json;

use crate::honest::{Ask, Target, expect};

/// The lease of the honest node.
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/honest";

/// `portcullis serve` with an honest node and its administrator.
pub(crate) struct Served {
    pub(crate) running: Running,
    pub(crate) data: PathBuf,
    _scratch: Scratch,
}

impl Served {
    pub(crate) fn start(flags: &[&str]) -> Self {
        let scratch = Scratch::new();
        let data = scratch.path().join("data");
        let mut command = program!().serve_command(&data);
        command.args(flags);
        let served = Self { running: Running::start(command), data, _scratch: scratch };
        let lease = json!({"metadata": {"name": "honest", "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": "honest", "leaseDurationSeconds": 40}});
        let mut admin = served.admin();
        admin.must(201, "POST", "/api/v1/nodes", Some(&json!({"metadata": {"name": "honest"}})));
        admin.must(201, "POST", LEASE.trim_end_matches("/honest"), Some(&lease));
        served
    }

    pub(crate) fn admin(&self) -> Client {
        Client::new(self.address(), &Identity::admin(&self.data))
    }

    pub(crate) fn identity(&self, name: &str, groups: &[&str]) -> Identity {
        let (certificate, key) = client_certificate(&self.data, name, groups);
        Identity::read(&self.data.join("ca.crt"), &certificate, &key)
    }

    pub(crate) fn node(&self, name: &str) -> Identity {
        self.identity(&format!("system:node:{name}"), &["system:nodes"])
    }

    /// A user who may do this with these resources of the core group in namespace `default`.
    pub(crate) fn user(&self, name: &str, verbs: &[&str], resources: &[&str]) -> Identity {
        let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
        let role = json!({"metadata": {"name": name},
            "rules": [{"verbs": verbs, "apiGroups": [""], "resources": resources}]});
        let binding = json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}]});
        let mut admin = self.admin();
        admin.must(201, "POST", &format!("{roles}/roles"), Some(&role));
        admin.must(201, "POST", &format!("{roles}/rolebindings"), Some(&binding));
        self.identity(name, &[])
    }
}

impl Target for Served {
    fn process(&self) -> u32 {
        self.running.id()
    }

    fn address(&self) -> SocketAddr {
        self.running.address()
    }

    fn anonymous(&self) -> Identity {
        Identity::anonymous(&self.data.join("ca.crt"))
    }

    fn known(&self) -> Identity {
        self.node("thief")
    }

    fn honest(&self) -> Vec<(&'static str, Ask)> {
        let (address, anonymous, node) = (self.address(), self.anonymous(), self.node("honest"));
        let (mut kubelet, mut round) = (Client::new(address, &node), 0);
        vec![
            // Somebody new each time, as a health check is.
            (
                "livez",
                Box::new(move || expect(&mut Client::new(address, &anonymous), 200, "GET", "/livez", None)),
            ),
            (
                "lease",
                Box::new(move || {
                    round += 1;
                    let renewal = json!({"metadata": {"annotations": {"round": round.to_string()}}});
                    expect(&mut kubelet, 200, "PATCH", LEASE, Some(&renewal))
                }),
            ),
            // Somebody who knows the server, and comes back.
            ("return", Box::new(move || expect(&mut Client::new(address, &node), 200, "GET", LEASE, None))),
        ]
    }
}

/// A client certificate and its key, by openssl and the authority of the server with this data directory.
pub(crate) fn client_certificate(data: &Path, name: &str, groups: &[&str]) -> (PathBuf, PathBuf) {
    let file = |suffix: &str| data.join(format!("{}.{suffix}", name.replace(':', "-")));
    let (key, request, certificate) = (file("key"), file("csr"), file("crt"));
    let organizations: String = groups.iter().map(|group| format!("/O={group}")).collect();
    let run = |words: Vec<&std::ffi::OsStr>| portcullis_testkit::tool::run("openssl", words);
    let words = |text: &'static str| text.split(' ').map(std::ffi::OsStr::new).collect::<Vec<_>>();
    let subject = format!("/CN={name}{organizations}");
    let mut arguments = words("req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout");
    arguments.extend([
        key.as_os_str(),
        "-out".as_ref(),
        request.as_os_str(),
        "-subj".as_ref(),
        subject.as_ref(),
    ]);
    run(arguments);
    let (ca, ca_key) = (data.join("ca.crt"), data.join("ca.key"));
    let extensions = file("ext");
    fs::write(&extensions, "extendedKeyUsage=clientAuth\n").unwrap();
    let mut arguments = words("x509 -req -days 1 -in");
    arguments.extend([
        request.as_os_str(),
        "-CA".as_ref(),
        ca.as_os_str(),
        "-CAkey".as_ref(),
        ca_key.as_os_str(),
    ]);
    arguments.extend(["-out".as_ref(), certificate.as_os_str(), "-extfile".as_ref(), extensions.as_os_str()]);
    run(arguments);
    (certificate, key)
}
