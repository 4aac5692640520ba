//! Runs the fake kubelet of the tests: `fake-kubelet FOLDER [PORT [TOKEN]]`. It prints its address and writes its
//! certificates to the folder, with `guard.pem` and `guard-key.pem` for a client. With a token, only requests with that
//! token are authorized.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a tool of the tests stops at once and says where"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;

use portcullis_testkit::kubelet::{FakeKubelet, Holder, Options};

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let folder = PathBuf::from(arguments.next().expect("usage: fake-kubelet FOLDER [PORT [TOKEN]]"));
    let port = arguments.next().map_or(0, |port| port.to_string_lossy().parse().expect("a port number"));
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let grants = arguments.next().map(|token| {
        let all = ["proxy", "metrics", "stats", "log", "checkpoint", "statusz", "configz"];
        let grants = all.map(|subresource| ("*".to_owned(), subresource.to_owned())).to_vec();
        BTreeMap::from([(token.to_string_lossy().into_owned(), Holder { user: "bench".to_owned(), grants })])
    });
    let options = Options { port, threads, grants, log: false, ..Options::default() };
    let kubelet = FakeKubelet::start(&folder, options);
    kubelet.client_certificate("guard", "guard", &["system:kubelet-clients"]);
    println!("{}", kubelet.address());
    loop {
        thread::park();
    }
}
