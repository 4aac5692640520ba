//! Attacks on node identity against a server that approves by Machines. The attacker has a bootstrap credential or a
//! node. No attack gets a certificate of another identity, and each is refused with a reason.

use portcullis_testkit::program;
use portcullis_testkit::tool::Finished;
use portcullis_testkit::wait::until_some;
use serde_json::Value;

use crate::kubectl::support::Served;

const KUBELET: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const USAGES: &[&str] = &["digital signature", "client auth"];
const P256: &str = "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key";

/// A cluster that a machine is about to join, and somebody who has read the bootstrap kubeconfig.
struct World {
    served: Served,
}

/// What somebody asks for.
struct Asked<'a> {
    name: &'a str,
    /// As openssl has it.
    subject: &'a str,
    key: &'a str,
    /// Further words for openssl.
    more: &'a str,
    signer: &'a str,
    usages: &'a [&'a str],
}

impl Asked<'_> {
    /// What a kubelet asks for.
    const USUAL: Self = Asked {
        name: "request",
        subject: "/O=system:nodes/CN=system:node:node-1",
        key: P256,
        more: "",
        signer: KUBELET,
        usages: USAGES,
    };
}

fn machine(name: &str) -> String {
    format!(
        "apiVersion: machine.openshift.io/v1beta1\nkind: Machine\nmetadata: {{name: {name}, namespace: default}}\nspec: \
         {{providerID: 'x:///{name}'}}\n"
    )
}

impl World {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(flags: &[&str]) -> Self {
        let served = Served::start(&[&["--approver", "machine"], flags].concat());
        let world = Self { served };
        world.portcullis("bootstrap worker create --output worker.kubeconfig");
        world
    }

    fn portcullis(&self, words: &str) {
        let mut command = program!().command(words.split(' '));
        command.current_dir(self.served.scratch.path());
        Finished::of(command.env("KUBECONFIG", self.served.data().join("admin.kubeconfig"))).ok();
    }

    /// A machine that was just made, with the address by which its node will be called.
    fn machine(&self, node: &str) {
        self.served.ok_with("apply -f -", &machine(node));
        let status = format!(
            r#"{{"status":{{"phase":"Provisioned","addresses":[{{"type":"InternalDNS","address":"{node}"}}]}}}}"#
        );
        self.served.ok(&format!(
            "patch machines.machine.openshift.io {node} --subresource=status --type=merge -p '{status}'"
        ));
    }

    fn node(&self, name: &str) {
        self.served
            .ok_with("apply -f -", &format!("apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\n"));
    }

    /// Files a request with these words for kubectl, which say who asks.
    fn ask(&self, asked: &Asked<'_>, who: &str) -> Finished {
        self.served.openssl(asked.key);
        let subject = asked.subject;
        let more = if asked.more.is_empty() { String::new() } else { format!(" {}", asked.more) };
        self.served.openssl(&format!("req -new -key key -out csr -subj {subject}{more}"));
        self.send(asked, who)
    }

    fn send(&self, asked: &Asked<'_>, who: &str) -> Finished {
        let request = self.served.openssl("base64 -A -in csr");
        let usages = asked.usages.join("\", \"");
        let manifest = format!(
            "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {{name: {}}}\nspec:\n  request: \
             {request}\n  signerName: {}\n  usages: [\"{usages}\"]\n  username: {NODE_BOOTSTRAPPER}\n  groups: \
             [system:masters]\n",
            asked.name, asked.signer
        );
        self.served.kubectl_with(&format!("create {who} -f -"), &manifest)
    }

    /// Files a request with the bootstrap credential, and gives the reason for which it is not approved.
    fn refused(&self, asked: &Asked<'_>) -> String {
        let done = self.ask(asked, "--kubeconfig worker.kubeconfig");
        assert_eq!(done.code, 0, "{done:?}");
        let reason = self.reason(asked.name);
        self.is_pending(asked.name);
        reason
    }

    /// The reason of the decision on a request.
    fn reason(&self, name: &str) -> String {
        let annotation = until_some(&format!("a decision on {name}"), || {
            let annotation = self.served.ok(&format!(
                r"get csr {name} -o jsonpath='{{.metadata.annotations.portcullis\.dev/decision}}'"
            ));
            (!annotation.is_empty()).then_some(annotation)
        });
        let decision: Value = serde_json::from_str(&annotation).unwrap();
        decision["reason"].as_str().unwrap().to_owned()
    }

    fn is_pending(&self, name: &str) {
        let conditions = self.served.ok(&format!("get csr {name} -o jsonpath='{{.status}}'"));
        assert_eq!(conditions, "{}", "{name} has neither a decision nor a certificate");
    }

    fn is_issued(&self, name: &str) {
        self.served.ok(&format!("wait csr/{name} --for=jsonpath={{.status.certificate}} --timeout=60s"));
    }
}

const NODE_BOOTSTRAPPER: &str = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper";

#[test]
fn a_machine_that_is_what_it_says_gets_its_certificate() {
    let world = World::start();
    world.machine("node-1");
    assert_eq!(world.ask(&Asked::USUAL, "--kubeconfig worker.kubeconfig").code, 0);
    world.is_issued("request");
    assert_eq!(world.reason("request"), "ClientApproved");
}

#[test]
fn hijack_of_an_existing_node() {
    let world = World::start();
    world.machine("node-1");
    world.node("node-1");
    assert_eq!(world.refused(&Asked::USUAL), "NodeAlreadyExists");
}

#[test]
fn hijack_of_a_control_plane_node() {
    let world = World::start();
    world.machine("master-0");
    let link = r#"{"status":{"nodeRef":{"kind":"Node","name":"master-0"}}}"#;
    let patch = "patch machines.machine.openshift.io master-0 --subresource=status --type=merge";
    world.served.ok(&format!("{patch} -p '{link}'"));
    let subject = "/O=system:nodes/CN=system:node:master-0";
    // Its Node has been deleted, or is not there yet after a restore: the Machine knows better.
    assert_eq!(world.refused(&Asked { subject, name: "without", ..Asked::USUAL }), "MachineHasNode");
    world.node("master-0");
    assert_eq!(world.refused(&Asked { subject, name: "with", ..Asked::USUAL }), "NodeAlreadyExists");
}

#[test]
fn replayed_token() {
    let world = World::start();
    world.machine("node-1");
    assert_eq!(world.ask(&Asked::USUAL, "--kubeconfig worker.kubeconfig").code, 0);
    world.is_issued("request");
    // The machine has its identity, and has not registered yet. The same token asks for the same name with another key.
    assert_eq!(world.refused(&Asked { name: "again", ..Asked::USUAL }), "IdentityAlreadyGranted");
    // Once it is revoked, it does not even ask.
    world.portcullis("bootstrap worker revoke");
    let done = world.ask(&Asked { name: "later", ..Asked::USUAL }, "--kubeconfig worker.kubeconfig");
    assert!(done.stderr.contains("asked for the client to provide credentials"), "{done:?}");
}

#[test]
fn request_with_the_extension_of_an_authority() {
    let world = World::start();
    world.machine("node-1");
    let more = "-addext basicConstraints=critical,CA:TRUE";
    assert_eq!(world.refused(&Asked { more, ..Asked::USUAL }), "NotKubeletClient");
}

#[test]
fn extra_organization() {
    let world = World::start();
    world.machine("node-1");
    let subject = "/O=system:nodes/O=system:masters/CN=system:node:node-1";
    assert_eq!(world.refused(&Asked { subject, ..Asked::USUAL }), "NotKubeletClient");
}

#[test]
fn names_on_a_client_certificate() {
    let world = World::start();
    world.machine("node-1");
    for (name, kind) in [("dns", "DNS:kubernetes"), ("ip", "IP:10.0.0.1"), ("uri", "URI:spiffe://a/b")] {
        let more = format!("-addext subjectAltName={kind}");
        assert_eq!(world.refused(&Asked { name, more: &more, ..Asked::USUAL }), "NotKubeletClient", "{kind}");
    }
}

#[test]
fn usages_beyond_client_authentication() {
    let world = World::start();
    world.machine("node-1");
    let usages = &["digital signature", "client auth", "server auth"];
    assert_eq!(world.refused(&Asked { usages, ..Asked::USUAL }), "NotKubeletClient");
}

#[test]
fn forged_spec_username() {
    let world = World::start();
    world.machine("node-1");
    // Mallory may ask, as many may; every request here says in its body that the bootstrap account asks.
    world.served.ok(
        "create clusterrole asks --verb=create --resource=certificatesigningrequests.certificates.k8s.io",
    );
    world.served.ok("create clusterrolebinding mallory --clusterrole=asks --user=mallory");
    assert_eq!(world.ask(&Asked::USUAL, "--as mallory").code, 0);
    let spec = |field: &str| world.served.ok(&format!("get csr request -o jsonpath='{{.spec.{field}}}'"));
    assert_eq!(spec("username"), "mallory");
    assert_eq!(spec("groups"), r#"["system:authenticated"]"#);
    // A later request that is decided on shows that this one was passed over.
    assert_eq!(world.ask(&Asked { name: "real", ..Asked::USUAL }, "--kubeconfig worker.kubeconfig").code, 0);
    world.is_issued("real");
    world.is_pending("request");
}

#[test]
fn renewal_through_the_bootstrap_credential() {
    let world = World::start();
    world.machine("node-1");
    assert_eq!(world.ask(&Asked::USUAL, "--kubeconfig worker.kubeconfig").code, 0);
    world.is_issued("request");
    world.node("node-1");
    assert_eq!(world.refused(&Asked { name: "renewal", ..Asked::USUAL }), "NodeAlreadyExists");
    // The node itself renews.
    let as_node = "--as system:node:node-1 --as-group system:nodes";
    assert_eq!(world.ask(&Asked { name: "own", ..Asked::USUAL }, as_node).code, 0);
    world.is_issued("own");
}

#[test]
fn machine_without_a_node_that_is_too_old() {
    let world = World::start();
    world.machine("node-1");
    assert_eq!(world.ask(&Asked { name: "young", ..Asked::USUAL }, "--kubeconfig worker.kubeconfig").code, 0);
    world.is_issued("young");
    // The same request and the same Machine, had it been made three hours before, to the same rules.
    let scratch = world.served.scratch.path();
    let mut machines: Value =
        serde_json::from_str(&world.served.ok("get machines.machine.openshift.io -A -o json")).unwrap();
    for machine in machines["items"].as_array_mut().unwrap() {
        machine["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    std::fs::write(scratch.join("machines.json"), machines.to_string()).unwrap();
    let mut request: Value = serde_json::from_str(&world.served.ok("get csr young -o json")).unwrap();
    request["status"] = serde_json::json!({});
    request["metadata"]["creationTimestamp"] = "2026-01-01T03:00:00Z".into();
    std::fs::write(scratch.join("request.json"), request.to_string()).unwrap();
    let words = "approve --csr request.json --state machines.json --now 2026-01-01T03:00:01Z -o json";
    let Finished { code, stdout: text, .. } =
        Finished::of(program!().command(words.split(' ')).current_dir(scratch));
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("OutsideMachineWindow"), "{text}");
}

#[test]
fn flood_of_pending_requests() {
    let world = World::start();
    world.machine("node-1");
    world.served.openssl(P256);
    let mut flood = String::new();
    for number in 0..120 {
        world.served.openssl(&format!(
            "req -new -key key -out csr -subj /O=system:nodes/CN=system:node:made-up-{number}"
        ));
        let request = world.served.openssl("base64 -A -in csr");
        flood.push_str(&format!(
            "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {{name: flood-{number}}}\nspec:\n  \
             request: {request}\n  signerName: {KUBELET}\n  usages: [\"digital signature\", \"client auth\"]\n---\n"
        ));
    }
    world.served.ok_with("create --kubeconfig worker.kubeconfig -f -", &flood);
    // The real machine is not in their way.
    assert_eq!(world.ask(&Asked::USUAL, "--kubeconfig worker.kubeconfig").code, 0);
    world.is_issued("request");
    let names = world.served.ok("get csr -o jsonpath='{.items[?(@.status.certificate)].metadata.name}'");
    assert_eq!(names, "request");
}

#[test]
fn signer_name_confusion() {
    let world = World::start();
    world.machine("node-1");
    // The node's subject to the signer that gives clients any subject, and to one of somebody else.
    for (name, signer) in [("client", "kubernetes.io/kube-apiserver-client"), ("foreign", "example.com/node")]
    {
        let done = world.ask(&Asked { name, signer, ..Asked::USUAL }, "--kubeconfig worker.kubeconfig");
        assert_eq!(done.code, 0, "{done:?}");
    }
    assert_eq!(world.ask(&Asked { name: "real", ..Asked::USUAL }, "--kubeconfig worker.kubeconfig").code, 0);
    world.is_issued("real");
    world.is_pending("client");
    world.is_pending("foreign");
}

#[test]
fn key_below_the_minimum_size() {
    let world = World::start();
    world.machine("node-1");
    for (name, key, more) in [("rsa", "genrsa -out key 1024", ""), ("sha1", "genrsa -out key 2048", "-sha1")]
    {
        assert_eq!(world.refused(&Asked { name, key, more, ..Asked::USUAL }), "MalformedRequest", "{name}");
    }
    let key = "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:secp224r1 -out key";
    let done = world.ask(&Asked { name: "p224", key, ..Asked::USUAL }, "--kubeconfig worker.kubeconfig");
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.stderr.contains("spec.request"), "{done:?}");
}

#[test]
fn request_whose_inner_and_outer_names_differ() {
    let world = World::start();
    world.machine("node-2");
    // node-1 asks for node-2: NodeRestriction stops it before anybody could decide.
    let asked = Asked { subject: "/O=system:nodes/CN=system:node:node-2", ..Asked::USUAL };
    let done = world.ask(&asked, "--as system:node:node-1 --as-group system:nodes");
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.stderr.contains("the common name must be system:node:node-1"), "{done:?}");
    assert_eq!(world.served.ok("get csr -o name"), "");
}
