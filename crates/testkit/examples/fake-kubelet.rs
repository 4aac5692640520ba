//! Runs the kubelet of the tests by itself: `fake-kubelet FOLDER [PORT]`. Prints its address. Beside its own
//! certificates it leaves `guard.pem` and `guard-key.pem` in the folder, a client that it serves.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a tool of the tests stops at once and says where"
)]

use std::path::PathBuf;
use std::thread;

use portcullis_testkit::kubelet::{FakeKubelet, Options};

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let folder = PathBuf::from(arguments.next().expect("usage: fake-kubelet FOLDER [PORT]"));
    let port = arguments.next().map_or(0, |port| port.to_string_lossy().parse().expect("a port number"));
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let kubelet = FakeKubelet::start(&folder, Options { port, threads, log: false, ..Options::default() });
    kubelet.client_certificate("guard", "guard", &["system:kubelet-clients"]);
    println!("{}", kubelet.address());
    loop {
        thread::park();
    }
}
