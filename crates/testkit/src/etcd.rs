//! temporary
#![allow(missing_docs, clippy::all, clippy::unwrap_used)]
use std::process::{Child, Command, Stdio};
pub struct Etcd {
    child: Child,
    port: u16,
    _dir: crate::scratch::Scratch,
}
impl Etcd {
    pub fn start() -> Self {
        let dir = crate::scratch::Scratch::new();
        let port = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (a, b) = (port(), port());
        let child = Command::new("etcd")
            .args([
                "--data-dir",
                dir.path().join("d").to_str().unwrap(),
                "--listen-client-urls",
                &format!("http://127.0.0.1:{a}"),
                "--advertise-client-urls",
                &format!("http://127.0.0.1:{a}"),
                "--listen-peer-urls",
                &format!("http://127.0.0.1:{b}"),
                "--initial-advertise-peer-urls",
                &format!("http://127.0.0.1:{b}"),
                "--initial-cluster",
                &format!("default=http://127.0.0.1:{b}"),
                "--log-level",
                "error",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, port: a, _dir: dir }
    }
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}
impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
