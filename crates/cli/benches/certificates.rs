//! How many certificates a second, and what ten thousand waiting requests cost everybody else.
//!
//! `cargo bench -p portcullis --bench certificates -- --seconds 5 --requests 5000 --pending 10000`
//!
//! First the authority alone: requests are read, their signatures checked, and certificates signed, on as many threads
//! as there are processors. Then `portcullis serve`: requests that are approved without being asked, filed over several
//! connections, until every one has its certificate. Last, the time of a GET and of a durable PUT, before and after so many
//! requests wait that nobody approves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    missing_docs,
    reason = "a measurement that cannot be set up must stop, and its figures are what it prints"
)]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use clap::Parser;
use portcullis_pki::usage::Usages;
use portcullis_pki::{CertificateAuthority, Csr};
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::recorded;
use portcullis_testkit::scratch::Scratch;
use serde_json::{Value, json};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
/// Connections that file requests.
const CLIENTS: usize = 16;
/// How often the small requests are timed.
const TIMED: usize = 4000;

#[derive(Parser)]
struct Arguments {
    /// How long the authority alone is measured.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Requests that are filed and signed.
    #[arg(long, default_value_t = 5000)]
    requests: usize,
    /// Requests that wait.
    #[arg(long, default_value_t = 10_000)]
    pending: usize,
    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A request for a certificate of a node, P-256, that somebody else made.
fn request() -> String {
    let cases = recorded::lines("certificates/issued.jsonl");
    cases.iter().find(|case| case["id"] == "node-plain").unwrap()["csr"].as_str().unwrap().to_owned()
}

fn authority_alone(seconds: u64) {
    let (text, count) = (request(), AtomicU64::new(0));
    let day = Duration::from_secs(86_400);
    let authority = CertificateAuthority::generate("ca", SystemTime::now(), 3650 * day).unwrap();
    let threads = std::thread::available_parallelism().unwrap().get();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while start.elapsed() < Duration::from_secs(seconds) {
                    let csr = Csr::from_pem(text.as_bytes()).unwrap();
                    let usages = Usages::named(["digital signature", "client auth"]).unwrap();
                    authority.issue_requested(&csr, &usages, None, 365 * day, SystemTime::now()).unwrap();
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let rate = count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    println!(
        "authority: {rate:.0} certificates a second, P-256, {threads} threads, request checked each time"
    );
}

struct Server {
    _process: Running,
    address: SocketAddr,
    data: Scratch,
}

impl Server {
    fn start() -> Self {
        let data = Scratch::new();
        let mut command = program!().serve_command(&data.path().join("data"));
        command.env("RUST_LOG", "error");
        let process = Running::start(command);
        Self { address: process.address(), _process: process, data }
    }

    fn client(&self) -> Client {
        Client::new(self.address, &Identity::admin(&self.data.path().join("data")))
    }

    /// Files requests over several connections.
    fn file(&self, count: usize, prefix: &str, signer: &str) {
        let encoded = {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD.encode(request())
        };
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let mut client = self.client();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= count {
                            return;
                        }
                        let object = json!({"apiVersion": "certificates.k8s.io/v1",
                            "kind": "CertificateSigningRequest", "metadata": {"name": format!("{prefix}-{number}")},
                            "spec": {"request": encoded, "signerName": signer,
                                "usages": ["digital signature", "client auth"]}});
                        assert_eq!(client.ask("POST", REQUESTS, Some(&object)).unwrap().code, 201);
                    }
                });
            }
        });
    }

    /// How many requests have no certificate.
    fn waiting(&self) -> usize {
        let list: Value = self.client().ask("GET", REQUESTS, None).unwrap().json();
        let items = list["items"].as_array().unwrap();
        items.iter().filter(|item| item["status"]["certificate"].is_null()).count()
    }

    fn sign(&self, count: usize) {
        let start = Instant::now();
        self.file(count, "signed", "kubernetes.io/kube-apiserver-client-kubelet");
        let filed = start.elapsed();
        while self.waiting() > 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
        let all = start.elapsed();
        let rate = count as f64 / all.as_secs_f64();
        println!(
            "serve: {count} requests filed in {:.2} s; all approved, signed and stored after {:.2} s: {rate:.0} a second",
            filed.as_secs_f64(),
            all.as_secs_f64()
        );
    }

    /// The middle and the slow times of a GET and of a durable PUT. Microseconds.
    fn small_requests(&self, when: &str) {
        let mut client = self.client();
        let maps = "/api/v1/namespaces/default/configmaps";
        let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "timed"}, "data": {"n": "0"}});
        client.ask("POST", maps, Some(&map)).unwrap();
        let mut timed = |method: &str, path: &str, body: &mut Option<&mut Value>| {
            let mut times: Vec<u128> = (0..TIMED)
                .map(|number| {
                    if let Some(body) = body {
                        body["data"]["n"] = number.to_string().into();
                    }
                    let start = Instant::now();
                    assert_eq!(client.ask(method, path, body.as_deref()).unwrap().code, 200);
                    start.elapsed().as_micros()
                })
                .collect();
            times.sort_unstable();
            format!("p50 {} us, p99 {} us", times[TIMED / 2], times[TIMED * 99 / 100])
        };
        let read = timed("GET", "/api/v1/namespaces/default", &mut None);
        let write = timed("PUT", &format!("{maps}/timed"), &mut Some(&mut map));
        println!("{when}: GET {read}; PUT {write}");
    }
}

fn main() {
    let arguments = Arguments::parse();
    authority_alone(arguments.seconds);
    Server::start().sign(arguments.requests);
    let server = Server::start();
    server.small_requests("nothing waits");
    server.file(arguments.pending, "pending", "example.com/nobody");
    server.small_requests(&format!("{} wait", arguments.pending));
}
