//! How many requests with the evidence of a TPM are verified in a second, and how long a node waits (AT-15, AT-194).
//!
//! `cargo bench -p portcullis --bench attestation -- --seconds 5 --enrolments 20 --calls 200`
//!
//! A node with a software TPM (RSA-2048 endorsement key, P-256 attestation key) joins `portcullis serve --approver attested`
//! several times: from nothing to its certificate. Then it calls the plugin with a usable cache. Last, its second request
//! is read and judged again and again, all checks, on as many threads as there are processors.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    missing_docs,
    reason = "a measurement that cannot be set up must stop, and its figures are what it prints"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use clap::Parser;
use portcullis_attestation::config::Config;
use portcullis_attestation::inventory::{Inventory, InventoryFile};
use portcullis_attestation::judge::{Decision, Subject};
use portcullis_client::attest::ChallengeKeys;
use portcullis_client::attestation::{Parsed, Stored};
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::software_tpm::Manufacturer;
use portcullis_testkit::tool::Finished;
use serde_json::Value;
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const RULES: &str = "authorizedAttestors: [tpm]\ntpm: {trust: cert, roots: root.pem, intermediates: issuer.pem, \
    minimumKeyClass: K1, pcrs: {mode: record, selection: [0, 1, 2, 3, 4, 7]}}\n\
    machines: {inventory: inventory.yaml}\n";
const INVENTORY: &str = "machines: [{nodeName: node-a, providerID: 'metal://node-a'}]\n";

#[derive(Parser)]
struct Arguments {
    /// How long requests are judged.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How often the node joins. At most 30, which is what a machine may do in 20 minutes.
    #[arg(long, default_value_t = 20)]
    enrolments: usize,
    /// How often the plugin is called with a usable cache.
    #[arg(long, default_value_t = 200)]
    calls: usize,
    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let arguments = Arguments::parse();
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let scratch = Scratch::new();
    fs::copy(manufacturer.root(), scratch.path().join("root.pem")).unwrap();
    fs::copy(manufacturer.issuer(), scratch.path().join("issuer.pem")).unwrap();
    scratch.write("attest.yaml", RULES);
    scratch.write("inventory.yaml", INVENTORY);
    let groups = "system:bootstrappers,system:bootstrappers:kubeadm:default-node-token";
    scratch.write("tokens.csv", format!("sesame,system:bootstrap:abcdef,1,\"{groups}\"\n"));
    let data = scratch.path().join("data");
    let mut command = program!().serve_command(&data);
    command.current_dir(scratch.path()).args(["--approver", "attested", "--approver-config", "attest.yaml"]);
    let served = Running::start({
        command.args(["--token-auth-file", "tokens.csv"]);
        command
    });
    let address = served.address();
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'https://{address}', \
         certificate-authority: data/ca.crt}}}}]\nusers: [{{name: u, user: {{token: sesame}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    );
    let kubeconfig = scratch.write("bootstrap.kubeconfig", kubeconfig);
    fs::set_permissions(&kubeconfig, fs::Permissions::from_mode(0o600)).unwrap();
    let plugin = |cache: &str, class: &str| -> Command {
        let mut command = program!().command(["credential", "--attestor", "tpm", "--node-name", "node-a"]);
        command.args(["--provider-id", "metal://node-a", "--key-class", class, "--tpm", &tpm.connection()]);
        command.arg("--bootstrap-kubeconfig").arg(&kubeconfig);
        command.arg("--cache-dir").arg(scratch.path().join(cache)).env_remove("KUBERNETES_EXEC_INFO");
        command
    };
    let timed = |command: &mut Command| {
        let began = Instant::now();
        Finished::of(command).ok();
        began.elapsed()
    };
    let joined = (0..arguments.enrolments)
        .map(|number| timed(plugin(&format!("cache-{number}"), "K2").arg("--once")))
        .collect();
    print("from nothing to a certificate (K2)", joined);
    timed(&mut plugin("used", "K1"));
    let calls = (0..arguments.calls).map(|_| timed(&mut plugin("used", "K1"))).collect();
    print("a call with a usable cache", calls);
    judge(&arguments, &scratch, &mut Client::new(address, &Identity::admin(&data)));
}

/// Reads and judges the second request of the last exchange, all checks.
fn judge(arguments: &Arguments, scratch: &Scratch, admin: &mut Client) {
    let list = admin.must(200, "GET", REQUESTS, None);
    let requests = list["items"].as_array().unwrap();
    let signed = requests.iter().rfind(|csr| csr["status"]["certificate"].is_string()).unwrap();
    let stored = |value: &Value| -> Stored { serde_json::from_value(value.clone()).unwrap() };
    let earlier: Vec<_> = requests.iter().filter_map(|csr| Parsed::new(stored(csr)).facts()).collect();
    let secret = "/api/v1/namespaces/kube-system/secrets/portcullis-attestation-keys";
    let keys: ChallengeKeys = serde_json::from_value(admin.must(200, "GET", secret, None)).unwrap();
    let keys = keys.keys().unwrap();
    let config: Config = serde_saphyr::from_str(RULES).unwrap();
    let rules = config.rules(|file| fs::read(scratch.path().join(file)).map_err(|e| e.to_string())).unwrap();
    let inventory = Inventory::new(serde_saphyr::from_str::<InventoryFile>(INVENTORY).unwrap()).unwrap();
    let (signed, now) = (stored(signed), SystemTime::now());
    let once = || {
        let parsed = Parsed::new(signed.clone());
        let subject = Subject {
            request: parsed.client_request(),
            uid: &parsed.stored.metadata.uid,
            created: parsed.created(),
            machine: inventory.of_node("node-a"),
            record: None,
            earlier: &earlier,
        };
        let judged = rules.judge(&subject, &keys, [0; 32], now).outcome;
        assert!(matches!(judged, Ok(Decision::Issue(_))), "{judged:?}");
    };
    let allocated = || tikv_jemalloc_ctl::thread::allocatedp::read().unwrap().get();
    once();
    let before = allocated();
    once();
    println!("memory that is allocated for one request: {} KiB in all", (allocated() - before) / 1024);
    let threads = std::thread::available_parallelism().unwrap().get();
    let (count, began) = (AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while began.elapsed() < Duration::from_secs(arguments.seconds) {
                    once();
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let rate = count.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
    println!("second requests read and judged, {threads} threads: {rate:.0}/s");
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)].as_secs_f64() * 1000.0;
    println!("{what}: p50 {:.1} ms, p99 {:.1} ms, {} times", at(50), at(99), times.len());
}
