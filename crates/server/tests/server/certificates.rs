//! Certificate requests and time: when they are deleted, how long certificates last, and authorities that change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::common::{Setup, Started, start_with};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_pki::{CertificateAuthority, KeyPair, cert, pem};
use portcullis_server::clock::Clock;
use portcullis_server::signing::{Pair, Signing, USUAL_LONGEST};
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::recorded;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool;
use portcullis_testkit::wait;
use serde_json::{Value, json};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const HOUR: u64 = 3600;

/// A clock that stands as far ahead of the system's as it was told.
#[derive(Clone, Default)]
struct Ahead(Arc<AtomicU64>);

impl Ahead {
    fn by(&self, seconds: u64) {
        self.0.store(seconds, Ordering::SeqCst);
    }

    fn clock(&self) -> Clock {
        let ahead = Arc::clone(&self.0);
        Clock::new(move || SystemTime::now() + Duration::from_secs(ahead.load(Ordering::SeqCst)))
    }
}

struct Server {
    admin: Client,
    _started: Started,
}

/// A request that somebody else made.
fn recorded_request() -> String {
    let cases = recorded::lines("certificates/issued.jsonl");
    let case = cases.iter().find(|case| case["id"] == "subject-plain").unwrap();
    STANDARD.encode(case["csr"].as_str().unwrap())
}

impl Server {
    fn start(setup: Setup) -> Self {
        let started = start_with(Setup { is_cluster: true, ..setup });
        let admin = Client::new(started.address, &Identity::admin(&started.dir));
        Self { admin, _started: started }
    }

    fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let answer = self.admin.ask(method, path, body).unwrap();
        (answer.code, answer.json())
    }

    fn create(&mut self, name: &str, expiration: Option<u64>) {
        let mut spec =
            json!({"request": recorded_request(), "signerName": CLIENT, "usages": ["client auth"]});
        if let Some(expiration) = expiration {
            spec["expirationSeconds"] = expiration.into();
        }
        let object = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": name}, "spec": spec});
        assert_eq!(self.ask("POST", REQUESTS, Some(&object)).0, 201);
    }

    fn decide(&mut self, name: &str, kind: &str) {
        let mut object = self.get(name).unwrap();
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        object["status"]["conditions"] = json!([{"type": kind, "status": "True", "reason": "Test"}]);
        let (code, answer) = self.ask("PUT", &format!("{REQUESTS}/{name}/approval"), Some(&object));
        assert_eq!(code, 200, "{answer}");
    }

    fn get(&mut self, name: &str) -> Option<Value> {
        let (code, object) = self.ask("GET", &format!("{REQUESTS}/{name}"), None);
        (code == 200).then_some(object)
    }

    /// Has the controllers look at a request.
    fn touch(&mut self, name: &str) {
        if let Some(mut object) = self.get(name) {
            object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
            let count = object["metadata"]["annotations"]["touched"].as_str().unwrap_or("").len();
            object["metadata"]["annotations"] = json!({"touched": "x".repeat(count + 1)});
            self.ask("PUT", &format!("{REQUESTS}/{name}"), Some(&object));
        }
    }

    fn until<T>(&mut self, what: &str, mut seen: impl FnMut(&mut Self) -> Option<T>) -> T {
        wait::until_some(what, || seen(self))
    }

    fn certificate(&mut self, name: &str) -> Vec<u8> {
        self.until(&format!("{name} gets a certificate"), |server| {
            let object = server.get(name)?;
            Some(STANDARD.decode(object["status"]["certificate"].as_str()?).unwrap())
        })
    }
}

#[test]
fn certificates_with_a_wanted_duration_are_counted_by_signer() {
    let mut server = Server::start(Setup::default());
    // Certificates live a year at most, unless the server is told otherwise.
    let wanted = [("unlimited", None), ("an-hour", Some(HOUR)), ("ten-years", Some(10 * 365 * 24 * HOUR))];
    for (name, expiration) in wanted {
        server.create(name, expiration);
        server.decide(name, "Approved");
        server.certificate(name);
        // A later change of the request counts nothing.
        server.touch(name);
    }
    let metrics = server.admin.ask("GET", "/metrics", None).unwrap().text().to_owned();
    for (metric, count) in [("requested", 2), ("honored", 1)] {
        let line = format!(
            "apiserver_certificates_registry_csr_{metric}_duration_total{{signerName=\"{CLIENT}\"}} {count}"
        );
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
}

#[test]
fn requests_are_deleted_when_their_time_is_over_cs_90() {
    let ahead = Ahead::default();
    let mut server = Server::start(Setup { clock: ahead.clock(), ..Setup::default() });
    server.create("pending", None);
    server.create("denied", None);
    server.decide("denied", "Denied");
    server.create("issued", None);
    server.decide("issued", "Approved");
    server.certificate("issued");
    let gone = |server: &mut Server, ahead_by: u64, over: &[&str], stay: &[&str]| {
        ahead.by(ahead_by);
        for name in over {
            server.touch(name);
            server.until(&format!("{name} goes"), |server| server.get(name).is_none().then_some(()));
        }
        for name in stay {
            server.touch(name);
            assert!(server.get(name).is_some(), "{name} stays");
        }
    };
    gone(&mut server, HOUR - 60, &[], &["pending", "denied", "issued"]);
    gone(&mut server, HOUR + 60, &["denied", "issued"], &["pending"]);
    gone(&mut server, 24 * HOUR - 60, &[], &["pending"]);
    gone(&mut server, 24 * HOUR + 60, &["pending"], &[]);
}

#[test]
fn a_certificate_lasts_from_the_time_of_its_signature_cs_65() {
    let ahead = Ahead::default();
    let mut server = Server::start(Setup { clock: ahead.clock(), ..Setup::default() });
    ahead.by(HOUR / 2);
    server.create("later", Some(2 * HOUR));
    let before = SystemTime::now() + Duration::from_secs(HOUR / 2);
    server.decide("later", "Approved");
    let end = cert::not_after(&server.certificate("later")).unwrap();
    let lasts = end.duration_since(before).unwrap().as_secs();
    assert!((2 * HOUR - 1..2 * HOUR + 30).contains(&lasts), "{lasts}");
}

struct Files(Scratch);

impl Files {
    fn pair(&self) -> Pair {
        Pair { certificate: self.0.path().join("ca.crt"), key: self.0.path().join("ca.key") }
    }

    fn write(&self, certificate: &str, key: &str) {
        std::fs::write(self.pair().certificate, certificate).unwrap();
        std::fs::write(self.pair().key, key).unwrap();
    }
}

fn authority(name: &str) -> CertificateAuthority {
    CertificateAuthority::generate(name, SystemTime::now(), Duration::from_secs(1000 * HOUR)).unwrap()
}

/// Whether an authority has signed a certificate, to openssl.
fn is_signed_by(folder: &Scratch, certificate: &[u8], authority: &CertificateAuthority) -> bool {
    std::fs::write(folder.path().join("leaf.crt"), certificate).unwrap();
    std::fs::write(folder.path().join("by.crt"), authority.certificate_pem()).unwrap();
    tool::try_openssl(folder.path(), "verify -CAfile by.crt leaf.crt").code == 0
}

#[test]
fn an_authority_that_changes_signs_from_then_on_and_one_that_is_broken_does_not_cs_72() {
    let files = Files(Scratch::new());
    let (first, second) = (authority("first"), authority("second"));
    files.write(&first.certificate_pem(), &first.key().to_pem());
    let signing = Signing::by_one_pair(files.pair(), USUAL_LONGEST).unwrap();
    let mut server = Server::start(Setup { signing: Some(signing), ..Setup::default() });
    let mut count = 0;
    let mut sign = |server: &mut Server| {
        count += 1;
        let name = format!("r{count}");
        server.create(&name, None);
        server.decide(&name, "Approved");
        server.certificate(&name)
    };
    assert!(is_signed_by(&files.0, &sign(&mut server), &first));

    // A key of another certificate: the old pair goes on.
    files.write(&first.certificate_pem(), &second.key().to_pem());
    std::thread::sleep(Duration::from_secs(2));
    assert!(is_signed_by(&files.0, &sign(&mut server), &first));

    files.write(&second.certificate_pem(), &second.key().to_pem());
    server.until("the second signs", |server| is_signed_by(&files.0, &sign(server), &second).then_some(()));

    // Two certificates: nothing is signed until that is put right, and then what waited is.
    files.write(&format!("{}{}", second.certificate_pem(), first.certificate_pem()), &second.key().to_pem());
    std::thread::sleep(Duration::from_secs(2));
    server.create("waits", None);
    server.decide("waits", "Approved");
    std::thread::sleep(Duration::from_millis(500));
    let object = server.get("waits").unwrap();
    assert!(object["status"]["certificate"].is_null());
    assert_eq!(object["status"]["conditions"].as_array().unwrap().len(), 1, "CS-74: it says nothing of that");
    files.write(&first.certificate_pem(), &first.key().to_pem());
    assert!(is_signed_by(&files.0, &server.certificate("waits"), &first));
}

#[test]
fn an_authority_is_one_certificate_and_its_key_cs_72() {
    let files = Files(Scratch::new());
    let (first, second) = (authority("first"), authority("second"));
    let error = || Signing::by_one_pair(files.pair(), USUAL_LONGEST).unwrap_err().to_string();
    assert!(error().starts_with("cannot read "), "{}", error());
    files.write(&first.certificate_pem(), &second.key().to_pem());
    assert!(error().ends_with("key does not belong to its certificate"), "{}", error());
    files.write(&format!("{}{}", first.certificate_pem(), second.certificate_pem()), &first.key().to_pem());
    assert!(error().contains("more than one certificate"), "{}", error());
    files.write("", &first.key().to_pem());
    assert!(error().contains("no certificate in PEM form"), "{}", error());
    files.write(&pem::encode("CERTIFICATE", b"x"), &KeyPair::generate().unwrap().to_pem());
    assert!(error().contains("cannot be read"), "{}", error());
}
