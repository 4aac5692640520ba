//! Ten thousand idle connections: other clients are served, and each connection takes little memory.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::process::{raise_open_files, resident_bytes};
use portcullis_testkit::program;
use portcullis_testkit::scratch::Scratch;

const CLIENTS: usize = 10_000;

#[test]
fn ten_thousand_idle_connections_leave_room_for_others() {
    // Where fewer files may be open, so many connections are tried.
    let count = CLIENTS.min(raise_open_files() - 200);
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let served = program!().serve(&data);
    let address = served.address();
    let admin = Identity::admin(&data);
    let mut other = Client::new(address, &admin);
    assert_eq!(other.ask("GET", "/livez", None).unwrap().code, 200);
    let before = resident_bytes(served.id());
    // Half of them show who they are and ask once; half say nothing at all.
    let mut clients = Vec::new();
    let mut silent = Vec::new();
    for number in 0..count {
        if number % 2 == 0 {
            let mut client = Client::new(address, &admin);
            assert_eq!(client.ask("GET", "/livez", None).unwrap().code, 200);
            clients.push(client);
        } else {
            silent.push(std::net::TcpStream::connect(address).unwrap());
        }
    }
    let each = resident_bytes(served.id()).saturating_sub(before) / count;
    println!("{count} connections, {each} bytes each");
    assert!(each < 128 * 1024, "{each} bytes for a connection");
    // Somebody new, and somebody who was there.
    assert_eq!(Client::new(address, &admin).ask("GET", "/api/v1/namespaces", None).unwrap().code, 200);
    assert_eq!(other.ask("GET", "/api/v1/namespaces", None).unwrap().code, 200);
    drop((clients, silent));
    served.kill();
}
