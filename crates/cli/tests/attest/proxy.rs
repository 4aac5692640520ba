//! The TPM proxy: a kubelet uses a certificate whose key never leaves the TPM (AT-118).

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use portcullis_pki::{KeyPair, pem};
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::kubelet::{FakeKubelet, Options};
use portcullis_testkit::request::Request;
use portcullis_testkit::software_tpm::Manufacturer;
use portcullis_testkit::upgrade::{self, Protocol};
use portcullis_testkit::wait;
use serde_json::{Value, json};

use crate::attest::support::{Cluster, Machine, TPM, entry, openssl};

/// A proxy that runs.
struct Proxy {
    process: Child,
    address: SocketAddr,
    dir: PathBuf,
}

impl Proxy {
    /// Starts the proxy of a machine, and waits until it has its certificate.
    fn start(mut command: Command, dir: &Path) -> Self {
        command.args(["--proxy-listen", "127.0.0.1:0"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut wait_for = |event: &str| -> Value {
            let mut before = Vec::new();
            for line in &mut lines {
                let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
                if line["event"] == event {
                    return line;
                }
                before.push(line);
            }
            panic!("no {event}: {before:#?}");
        };
        let address = wait_for("listening")["address"].as_str().unwrap().parse().unwrap();
        wait_for("serving");
        thread::spawn(move || lines.for_each(drop));
        Self { process, address, dir: dir.to_owned() }
    }

    /// The kubelet's identity towards the proxy.
    fn identity(&self) -> Identity {
        let pair = self.dir.join("proxy-client.pem");
        Identity::read(&self.dir.join("proxy-ca.crt"), &pair, &pair)
    }

    fn client(&self) -> Client {
        Client::new(self.address, &self.identity())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn requests_watches_and_http_2_pass_the_proxy_in_the_name_of_the_node_at_118() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let cluster = Cluster::trusting(TPM, &entry("node-a", ""), &manufacturer);
    let machine = Machine::with_tpm("node-a", &tpm);
    let dir = cluster.path(machine.cache);
    let proxy = Proxy::start(cluster.credential(&machine, &[]), &dir);

    // A request, as the node.
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = proxy.client().must(201, "POST", path, Some(&review));
    assert_eq!(answer["status"]["userInfo"]["username"], "system:node:node-a");
    // The kubeconfig that it wrote is one of kubectl's.
    let mut kubectl = portcullis_testkit::tool::command("kubectl");
    kubectl.arg("--kubeconfig").arg(dir.join("proxy.kubeconfig")).args(["get", "services", "-o", "name"]);
    assert_eq!(portcullis_testkit::tool::Finished::of(&mut kubectl).ok().trim(), "service/kubernetes");

    // A watch, whose events arrive while it is open.
    let mut events = proxy.client().watch("/api/v1/services?watch=true").unwrap();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "seen"},
        "spec": {"ports": [{"port": 80}]}});
    cluster.admin().must(201, "POST", "/api/v1/namespaces/default/services", Some(&service));
    wait::until_some("the event", || {
        let event = events.next()?.unwrap();
        (event["object"]["metadata"]["name"] == "seen").then_some(())
    });

    // HTTP/2.
    let pair = dir.join("proxy-client.pem").display().to_string();
    let curl = Request::new("GET", format!("https://{}/version", proxy.address), dir.join("proxy-ca.crt"));
    let answer = ["--http2", "--cert", &pair, "--key", &pair].into_iter().fold(curl, Request::word).send();
    assert!(answer.head.starts_with("http/2 200"), "{}", answer.head);

    // A certificate of another start, and no certificate, get nothing.
    let anonymous = Identity::anonymous(&dir.join("proxy-ca.crt"));
    assert!(Client::new(proxy.address, &anonymous).ask("GET", "/version", None).is_err());
    let folder = cluster.scratch.path();
    openssl(
        folder,
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout other.key \
        -out other.crt -subj /CN=kubelet-of-this-machine -days 1",
    );
    let other =
        Identity::read(&dir.join("proxy-ca.crt"), &folder.join("other.crt"), &folder.join("other.key"));
    assert!(Client::new(proxy.address, &other).ask("GET", "/version", None).is_err());

    // After a restart the kubelet goes on with the files that it has.
    let identity = proxy.identity();
    let before = fs::read(dir.join("proxy-client.pem")).unwrap();
    drop(proxy);
    let proxy = Proxy::start(cluster.credential(&machine, &[]), &dir);
    assert_eq!(fs::read(dir.join("proxy-client.pem")).unwrap(), before);
    Client::new(proxy.address, &identity).must(200, "GET", "/version", None);
    // After a boot of the machine they are new.
    drop(proxy);
    fs::write(dir.join("proxy-boot-id"), "another").unwrap();
    let proxy = Proxy::start(cluster.credential(&machine, &[]), &dir);
    assert_ne!(fs::read(dir.join("proxy-client.pem")).unwrap(), before);
    assert!(Client::new(proxy.address, &identity).ask("GET", "/version", None).is_err());

    // The only private keys on the disk are those of the loopback connection.
    let certificate = fs::read(dir.join("current/client.crt")).unwrap();
    let certified = portcullis_pki::IssuedCertificate::from_pem(&certificate).unwrap();
    let mut keys = Vec::new();
    collect_keys(&dir, &mut keys);
    assert_eq!(keys.len(), 2);
    assert!(keys.iter().all(|key| key != certified.public_key_der()));
}

#[test]
fn an_upgraded_stream_passes_the_proxy_in_both_directions_at_118() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let cluster = Cluster::alone(TPM, &entry("node-a", ""));
    Cluster::trust(cluster.scratch.path(), &manufacturer);
    // A server that streams, and trusts the authority of the controller.
    let folder = cluster.path("streams");
    fs::create_dir(&folder).unwrap();
    let server = FakeKubelet::start(&folder, Options { trailer: b"the end".to_vec(), ..Options::default() });
    let key = server.client_authority().with_file_name("client-ca-key.pem");
    let _controller = cluster.controller_of(&server.client_authority(), &key, &["--leader-elect=false"]);
    let machine = Machine::with_tpm("node-a", &tpm);
    assert_eq!(cluster.run(&machine, &["--once"]).code, 0);
    let authority = base64(&fs::read(server.authority()).unwrap());
    let info = json!({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "spec": {"cluster": {
        "server": format!("https://{}", server.address()), "certificate-authority-data": authority}}});
    let mut command = cluster.credential(&machine, &[]);
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    let proxy = Proxy::start(command, &cluster.path(machine.cache));
    let path = "/exec/ns/p/c?command=cat&input=1&output=1&mode=echo";
    for protocol in [Protocol::Spdy(&["v4.channel.k8s.io"]), Protocol::WebSocket(&["v5.channel.k8s.io"])] {
        let method = if matches!(protocol, Protocol::Spdy(_)) { "POST" } else { "GET" };
        let (response, stream) =
            upgrade::open(proxy.address, &proxy.identity(), method, path, &[], protocol).unwrap();
        assert_eq!(response.code, 101);
        let sent: Vec<u8> = (0..200_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        let received = thread::scope(|scope| {
            scope.spawn(|| {
                (&stream).write_all(&sent).unwrap();
                // Our end; the other direction goes on.
                stream.close_write().unwrap();
            });
            let mut received = Vec::new();
            (&stream).read_to_end(&mut received).unwrap();
            received
        });
        assert!(received.ends_with(b"the end"));
        assert!(received[..received.len() - 7] == sent);
    }
}

#[test]
fn another_user_of_the_machine_is_refused_and_a_public_address_as_well_at_118() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let cluster = Cluster::trusting(TPM, &entry("node-a", ""), &manufacturer);
    let machine = Machine::with_tpm("node-a", &tpm);
    let proxy =
        Proxy::start(cluster.credential(&machine, &["--proxy-uid", "4242"]), &cluster.path(machine.cache));
    assert!(proxy.client().ask("GET", "/version", None).is_err());
    drop(proxy);
    let refused = cluster.run(&machine, &["--proxy-listen", "0.0.0.0:0"]);
    let line = crate::attest::support::failed(&refused, 2);
    assert!(line["message"].as_str().unwrap().contains("not a loopback address"), "{line}");
}

#[test]
fn a_renewal_is_authenticated_through_the_proxy_itself_at_31() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let cluster = Cluster::trusting(TPM, &entry("node-a", ""), &manufacturer);
    let machine = Machine::with_tpm("node-a", &tpm);
    // Always due: the first run gets a certificate, and each later one renews it.
    let flags = ["--max-age", "1s"];
    assert_eq!(cluster.run(&machine, &["--once"]).code, 0, "{}", cluster.log());
    let _proxy = Proxy::start(cluster.credential(&machine, &flags), &cluster.path(machine.cache));
    wait::until("a renewal in the node's own name", || {
        let requests = cluster.requests();
        requests.iter().any(|csr| {
            csr["spec"]["username"] == "system:node:node-a" && csr["status"]["certificate"].is_string()
        })
    });
}

#[test]
fn the_key_of_the_node_is_not_in_the_memory_of_the_proxy_at_118() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let cluster = Cluster::trusting(TPM, &entry("node-a", ""), &manufacturer);
    let machine = Machine::with_tpm("node-a", &tpm);
    let dir = cluster.path(machine.cache);
    let proxy = Proxy::start(cluster.credential(&machine, &[]), &dir);
    // The key is in use, for each connection to the server.
    for _ in 0..5 {
        proxy.client().must(200, "GET", "/version", None);
    }
    let certificate = fs::read(dir.join("current/client.crt")).unwrap();
    let own = portcullis_pki::IssuedCertificate::from_pem(&certificate).unwrap().public_key_der().to_vec();
    let mut loopback = Vec::new();
    collect_keys(&dir, &mut loopback);
    let found = keys_in_memory(proxy.process.id());
    // The search finds a key that is there: that of the connections on the loopback interface.
    assert!(loopback.iter().any(|key| found.contains(key)), "{} keys", found.len());
    assert!(!found.contains(&own));
}

/// The public keys of everything in the memory of a process that can be a private key on P-256: 32 bytes that look random,
/// in either order.
fn keys_in_memory(process: u32) -> HashSet<Vec<u8>> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let memory = fs::File::open(format!("/proc/{process}/mem")).unwrap();
    let mut candidates = HashSet::new();
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (start, rest) = line.split_once('-').unwrap();
        let at = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = (at(start), at(rest.split(' ').next().unwrap()));
        let mut page = [0; 4096 + 24];
        for address in (start..end).step_by(4096) {
            // What was never written cannot be read either. A key may reach into the next page.
            let length = if address + 4096 < end { page.len() } else { 4096 };
            let Some(bytes) = page.get_mut(..length) else { continue };
            if memory.read_exact_at(bytes, address).is_ok() {
                candidates.extend(
                    bytes.windows(32).step_by(8).filter(|window| is_random(window)).map(<[u8]>::to_vec),
                );
            }
        }
    }
    let reversed: Vec<Vec<u8>> =
        candidates.iter().map(|bytes| bytes.iter().rev().copied().collect()).collect();
    candidates.extend(reversed);
    let candidates: Vec<Vec<u8>> = candidates.into_iter().collect();
    thread::scope(|scope| {
        let half = candidates.len().div_ceil(2).max(1);
        let parts: Vec<_> = candidates.chunks(half).map(|part| scope.spawn(|| public_keys(part))).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    })
}

/// Whether no byte occurs often: random bytes have some thirty different ones among 32.
fn is_random(bytes: &[u8]) -> bool {
    let mut occurs = [false; 256];
    bytes.iter().for_each(|byte| occurs[usize::from(*byte)] = true);
    occurs.iter().filter(|occurs| **occurs).count() >= 24
}

/// The public keys of these private keys, as far as they are some.
fn public_keys(candidates: &[Vec<u8>]) -> HashSet<Vec<u8>> {
    let key = |scalar: &Vec<u8>| {
        // An ECPrivateKey of RFC 5915 for prime256v1, without its public key.
        let head = [0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20];
        let curve = [0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
        let der = [&head[..], scalar, &curve].concat();
        let key = KeyPair::from_pem(pem::encode("EC PRIVATE KEY", &der).as_bytes()).ok()?;
        Some(key.public_der().to_vec())
    };
    candidates.iter().filter_map(key).collect()
}

/// The public keys of all private keys below a folder.
fn collect_keys(folder: &Path, found: &mut Vec<Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_keys(&path, found);
            continue;
        }
        for block in pem::blocks(&fs::read(&path).unwrap()) {
            if block.label.ends_with("PRIVATE KEY") {
                let key = KeyPair::from_pem(pem::encode(&block.label, &block.der).as_bytes()).unwrap();
                if !found.contains(&key.public_der().to_vec()) {
                    found.push(key.public_der().to_vec());
                }
            }
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
