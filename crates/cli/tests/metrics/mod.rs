//! Compares the metrics of `serve`, the dashboards and the alerts with `docs/metrics.md` and promtool. The metrics of other commands
//! are compared where their tests scrape them.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop at once and say where"
)]

mod deploy;

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::metrics::{assert_documented, value};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::certificate_end;
use portcullis_testkit::wait::until;

/// The metrics of a server with these flags, and its service level indicators.
fn served(scratch: &Scratch, flags: &[&str]) -> [String; 2] {
    let data = scratch.path().join("data");
    let mut command = program!().serve_command(&data);
    command.args(flags);
    let served = Running::start(command);
    let mut admin = Client::new(served.address(), &Identity::admin(&data));
    ["/metrics", "/metrics/slis"].map(|path| {
        let answer = admin.ask("GET", path, None).unwrap();
        assert_eq!(answer.code, 200, "{}", answer.text());
        answer.text()
    })
}

#[test]
fn a_server_exports_what_the_reference_lists() {
    let [metrics, indicators] = served(&Scratch::new(), &[]);
    assert_documented(&["serve"], &metrics);
    assert_documented(&["serve: /metrics/slis"], &indicators);
}

#[test]
fn a_server_tells_when_the_certificate_that_it_shows_expires() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let server = Running::start(program!().serve_command(&data));
    let mut admin = Client::new(server.address(), &Identity::admin(&data));
    let end: jiff::Timestamp = certificate_end(&data.join("apiserver.crt")).parse().unwrap();
    until("the end of the certificate is exported", || {
        let scrape = admin.ask("GET", "/metrics", None).unwrap().text();
        value(&scrape, "portcullis_serving_certificate_expiration_timestamp_seconds")
            == end.as_second() as f64
    });
}

#[test]
fn a_server_that_approves_exports_the_metrics_of_its_approver_as_well() {
    let scratch = Scratch::new();
    let [metrics, _] = served(&scratch, &["--approver", "machine"]);
    assert_documented(&["serve", "approve"], &metrics);
    scratch.write("inventory.yaml", "machines: []\n");
    let config = scratch
        .write("attest.yaml", "authorizedAttestors: [challenge]\nmachines: {inventory: inventory.yaml}\n");
    let scratch = Scratch::new();
    let [metrics, _] =
        served(&scratch, &["--approver", "attested", "--approver-config", config.to_str().unwrap()]);
    assert_documented(&["serve", "attest"], &metrics);
}
