//! Serving certificates of attested nodes (AT-170 to AT-175).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::program;
use portcullis_testkit::software_tpm::Manufacturer;
use portcullis_testkit::wait;
use serde_json::{Value, json};

use crate::attest::support::{Cluster, Finished, Machine, REQUESTS, TPM, entry, openssl};

const KUBELET: &str = "kubernetes.io/kubelet-serving";
const ADDRESSES: &str = ", addresses: [10.0.0.7, node-a.example.com]";

/// A node with a software key (K1), so that a test can ask for anything as the node.
struct Node<'a> {
    cluster: &'a Cluster,
    client: Client,
    count: usize,
}

impl<'a> Node<'a> {
    fn join(cluster: &'a Cluster, machine: &Machine<'_>) -> Self {
        let done = cluster.run(machine, &["--once", "--key-class", "K1"]);
        assert_eq!(done.code, 0, "{done:#?}");
        let folder = cluster.path(machine.cache).join("current");
        let identity = Identity::read(
            &cluster.path("data/ca.crt"),
            &folder.join("client.crt"),
            &folder.join("client.key"),
        );
        Self { cluster, client: Client::new(cluster.address, &identity), count: 0 }
    }

    /// Asks for a serving certificate in this name, with these alternative names. Returns the name of the request.
    fn ask(&mut self, signer: &str, node: &str, names: &str) -> String {
        let request = request(self.cluster, node, names);
        self.count += 1;
        let name = format!("serving-{node}-{}", self.count);
        let csr = json!({"metadata": {"name": name}, "spec": {"request": request, "signerName": signer,
            "usages": ["digital signature", "server auth"]}});
        self.client.must(201, "POST", REQUESTS, Some(&csr));
        name
    }
}

/// A request that OpenSSL makes, in base64.
fn request(cluster: &Cluster, node: &str, names: &str) -> String {
    let extension = if names.is_empty() { String::new() } else { format!("-addext subjectAltName={names}") };
    let words = format!(
        "req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout serving.key \
         -subj /O=system:nodes/CN=system:node:{node} {extension}"
    );
    STANDARD.encode(openssl(cluster.scratch.path(), words.trim()))
}

fn certificate(cluster: &Cluster, name: &str) -> String {
    let mut admin = cluster.admin();
    let encoded = wait::until_some("the certificate is there", || {
        let csr = admin.must(200, "GET", &format!("{REQUESTS}/{name}"), None);
        csr["status"]["certificate"].as_str().map(str::to_owned)
    });
    let pem = STANDARD.decode(encoded).unwrap();
    let file = cluster.scratch.write(&format!("{name}.crt"), pem);
    openssl(cluster.scratch.path(), &format!("x509 -in {} -noout -text", file.display()))
}

fn rules(more: &str) -> String {
    format!("{}{more}", TPM.replace("requireCreation: true", "minimumKeyClass: K1"))
}

#[test]
fn the_serving_certificate_of_an_attested_kubelet_is_approved_and_all_others_are_not_at_171_at_174() {
    let manufacturer = Manufacturer::new();
    let (one, two) = (manufacturer.make("node-a"), manufacturer.make("node-b"));
    let inventory = entry("node-a", ADDRESSES) + &entry("node-b", ", addresses: [10.0.0.8]");
    let cluster = Cluster::trusting(&rules(""), &inventory, &manufacturer);
    let mut node = Node::join(&cluster, &Machine::with_tpm("node-a", &one));
    let good = node.ask(KUBELET, "node-a", "DNS:node-a.example.com,IP:10.0.0.7");
    let text = certificate(&cluster, &good);
    for part in ["TLS Web Server Authentication", "DNS:node-a.example.com, IP Address:10.0.0.7"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("CN=system:node:node-a") || text.contains("CN = system:node:node-a"), "{text}");
    // Names of another node, and in the name of another node.
    let foreign = node.ask(KUBELET, "node-a", "IP:10.0.0.8");
    let none = node.ask(KUBELET, "node-a", "");
    let other = json!({"metadata": {"name": "other"}, "spec": {"signerName": KUBELET,
        "request": request(&cluster, "node-b", "IP:10.0.0.8"), "usages": ["digital signature", "server auth"]}});
    node.client.must(403, "POST", REQUESTS, Some(&other));
    // Signers of attestors are served with `serving: sign` alone.
    let unserved = node.ask("cluster.x-k8s.io/kubelet-serving-tpm", "node-a", "IP:10.0.0.7");
    // With a certificate for the name of the node that the controller did not issue.
    let words = "req -x509 -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout forged.key \
        -subj /O=system:nodes/CN=system:node:node-a -CA data/ca.crt -CAkey data/ca.key -days 1 \
        -addext basicConstraints=critical,CA:FALSE -addext extendedKeyUsage=clientAuth -out forged.crt";
    openssl(cluster.scratch.path(), words);
    let identity = Identity::read(
        &cluster.path("data/ca.crt"),
        &cluster.path("forged.crt"),
        &cluster.path("forged.key"),
    );
    let client = Client::new(cluster.address, &identity);
    let mut forged = Node { cluster: &cluster, client, count: 100 };
    let stolen = forged.ask(KUBELET, "node-a", "IP:10.0.0.7");
    assert_eq!(cluster.refusal(&stolen), "NotAttested");
    // A revoked identity gets none either.
    let mut second = Node::join(&cluster, &Machine::with_tpm("node-b", &two));
    cluster.attest(&["revoke", "node-b", "--reason", "stolen"]).ok();
    let revoked = second.ask(KUBELET, "node-b", "IP:10.0.0.8");
    assert_eq!(cluster.refusal(&revoked), "IdentityRevoked");
    for waiting in [foreign, unserved] {
        let csr = cluster.admin().must(200, "GET", &format!("{REQUESTS}/{waiting}"), None);
        assert_eq!(csr["status"], json!({}), "{waiting}");
    }
    assert_eq!(cluster.refusal(&none), "ForbiddenSAN");
}

#[test]
fn an_insecure_node_gets_no_serving_certificate_at_92() {
    let cluster =
        Cluster::start("authorizedAttestors: [insecure]\nserving: sign\n", &entry("node-a", ADDRESSES));
    let machine = Machine { name: "node-a", cache: "node-a", tpm: None };
    let done = cluster.run(&machine, &["--attestor", "insecure", "--once"]);
    assert_eq!(done.code, 0, "{done:#?}");
    let folder = cluster.path("node-a").join("current");
    let identity =
        Identity::read(&cluster.path("data/ca.crt"), &folder.join("client.crt"), &folder.join("client.key"));
    let mut node = Node { cluster: &cluster, client: Client::new(cluster.address, &identity), count: 0 };
    // Others may approve for the signer of kubelets; the signer of the attestor is ours alone.
    let waiting = node.ask(KUBELET, "node-a", "IP:10.0.0.7");
    let refused = node.ask("cluster.x-k8s.io/kubelet-serving-insecure", "node-a", "IP:10.0.0.7");
    assert_eq!(cluster.refusal(&refused), "ServingNotSupported");
    let csr = cluster.admin().must(200, "GET", &format!("{REQUESTS}/{waiting}"), None);
    assert_eq!(csr["status"], json!({}));
}

#[test]
fn an_agent_keeps_the_serving_certificate_of_the_attestors_signer_at_172_at_173() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let cluster = Cluster::trusting(&rules("serving: sign\n"), &entry("node-a", ADDRESSES), &manufacturer);
    let machine = Machine::with_tpm("node-a", &tpm);
    let _node = Node::join(&cluster, &machine);
    let folder = cluster.path("node-a").join("current");
    let kubeconfig = cluster.scratch.write(
        "node.kubeconfig",
        format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'https://{}', \
             certificate-authority: data/ca.crt}}}}]\nusers: [{{name: u, user: {{client-certificate: {}, \
             client-key: {}}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n",
            cluster.address,
            folder.join("client.crt").display(),
            folder.join("client.key").display()
        ),
    );
    let object = json!({"metadata": {"name": "node-a"}});
    let mut object: Value = cluster.admin().must(201, "POST", "/api/v1/nodes", Some(&object));
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    object["status"]["addresses"] = json!([{"type": "InternalIP", "address": "10.0.0.7"},
        {"type": "InternalDNS", "address": "node-a.example.com"}]);
    cluster.admin().must(200, "PUT", "/api/v1/nodes/node-a/status", Some(&object));
    let agent = |signer: &str| {
        let mut command = program!().command(["credential", "serve-cert", "--once", "--wait", "60"]);
        command.args(["--node-name", "node-a", "--signer", signer, "--client-kubeconfig"]).arg(&kubeconfig);
        Finished::of(command.arg("--cert-dir").arg(cluster.path("serving")))
    };
    let wrong = agent(KUBELET);
    assert_eq!(wrong.code, 2, "{wrong:#?}");
    let done = agent("cluster.x-k8s.io/kubelet-serving-tpm");
    assert_eq!(done.code, 0, "{done:#?}\n{}", cluster.log());
    let pair = cluster.path("serving/kubelet-server-current.pem");
    let pair = pair.to_str().unwrap();
    openssl(cluster.scratch.path(), &format!("verify -purpose sslserver -CAfile data/ca.crt {pair}"));
    let text = openssl(cluster.scratch.path(), &format!("x509 -in {pair} -noout -text"));
    for part in ["DNS:node-a.example.com, IP Address:10.0.0.7", "TLS Web Server Authentication", "CA:FALSE"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The certificate and its key in one file, as tlsCertFile and tlsPrivateKeyFile take it.
    openssl(cluster.scratch.path(), &format!("pkey -in {pair} -noout"));
    // Nothing is due.
    let count = cluster.requests().len();
    assert_eq!(agent("cluster.x-k8s.io/kubelet-serving-tpm").code, 0);
    assert_eq!(cluster.requests().len(), count);
}
