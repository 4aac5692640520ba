//! A fake API server that only serves Machines, for `--management-kubeconfig`. HTTP without TLS, one request for each
//! connection.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use portcullis_testkit::scratch::Scratch;
use serde_json::{Value, json};

const GROUP: &str = "/apis/machine.openshift.io";

/// The server. It ends with the test's process.
#[derive(Clone)]
pub(crate) struct Machines {
    address: SocketAddr,
    /// A number that changes with the Machines, the Machines, and how many were taken away.
    held: Arc<Mutex<(u64, Vec<Value>, u64)>>,
}

impl Machines {
    pub(crate) fn serve() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let served =
            Self { address: listener.local_addr().unwrap(), held: Arc::new(Mutex::new((1, Vec::new(), 0))) };
        let server = served.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let server = server.clone();
                thread::spawn(move || server.answer(stream.unwrap()));
            }
        });
        served
    }

    /// A kubeconfig for it.
    pub(crate) fn kubeconfig(&self, scratch: &Scratch) -> PathBuf {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        scratch.write("management.kubeconfig", config.to_string())
    }

    /// Puts a Machine there.
    pub(crate) fn add(&self, machine: Value) {
        let mut held = self.held.lock().unwrap();
        held.0 += 1;
        let version = held.0.to_string();
        let mut machine = machine;
        machine["metadata"]["resourceVersion"] = version.into();
        held.1.retain(|old| old["metadata"]["name"] != machine["metadata"]["name"]);
        held.1.push(machine);
    }

    /// Takes a Machine away: watches end, and the next list does not contain it.
    pub(crate) fn remove(&self, name: &str) {
        let mut held = self.held.lock().unwrap();
        held.0 += 1;
        held.1.retain(|old| old["metadata"]["name"] != name);
        held.2 += 1;
    }

    fn answer(&self, mut stream: TcpStream) {
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let Some(Ok(first)) = lines.next() else { return };
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let target = first.split(' ').nth(1).unwrap().to_owned();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        if path == GROUP {
            let version = json!({"groupVersion": "machine.openshift.io/v1beta1", "version": "v1beta1"});
            let group = json!({"kind": "APIGroup", "apiVersion": "v1", "name": "machine.openshift.io",
                "versions": [version], "preferredVersion": version});
            return whole(&mut stream, 200, &group);
        }
        if path != format!("{GROUP}/v1beta1/machines") {
            let missing = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
                "reason": "NotFound", "message": "not here"});
            return whole(&mut stream, 404, &missing);
        }
        if !query.contains("watch=") {
            let (version, items, _) = self.held.lock().unwrap().clone();
            let list = json!({"kind": "MachineList", "apiVersion": "machine.openshift.io/v1beta1",
                "metadata": {"resourceVersion": version.to_string()}, "items": items});
            return whole(&mut stream, 200, &list);
        }
        let from = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion=")).unwrap();
        self.watch(&mut stream, from.parse().unwrap());
    }

    fn watch(&self, stream: &mut TcpStream, mut from: u64) {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
        let mut is_there = stream.write_all(head.as_bytes()).is_ok();
        let removed = self.held.lock().unwrap().2;
        while is_there {
            let (version, items, now_removed) = self.held.lock().unwrap().clone();
            if now_removed != removed {
                // The revision that the client has is too old to watch from.
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410,
                    "reason": "Expired", "message": "too old"});
                let event = json!({"type": "ERROR", "object": status});
                let _ = stream.write_all(format!("{event}\n").as_bytes());
                return;
            }
            let is_new = |item: &&Value| {
                item["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() > from
            };
            for item in items.iter().filter(is_new) {
                let event = json!({"type": "MODIFIED", "object": item});
                is_there &= stream.write_all(format!("{event}\n").as_bytes()).is_ok();
            }
            from = version;
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn whole(stream: &mut TcpStream, code: u16, body: &Value) {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {code} .\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    // A client that was killed does not read its answer.
    let _ = stream.write_all((head + &body).as_bytes());
}
