//! A TLS connection on which the test writes every byte itself.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};

use crate::request::Identity;
use crate::tool;

/// Where SubjectAccessReviews are sent.
pub const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// A TLS connection held by openssl.
#[derive(Debug)]
pub struct Tls {
    child: Child,
    stdin: ChildStdin,
}

impl Tls {
    /// Connects as a client with a certificate, over a protocol that ALPN names. The file `ca` has the server's
    /// authority.
    pub fn open(address: SocketAddr, ca: &Path, identity: &Identity, protocol: &str) -> Self {
        let mut child = tool::command("openssl")
            .args([
                "s_client",
                "-quiet",
                "-no_ign_eof",
                "-alpn",
                protocol,
                "-connect",
                &address.to_string(),
                "-CAfile",
            ])
            .arg(ca)
            .arg("-cert")
            .arg(&identity.certificate)
            .arg("-key")
            .arg(&identity.key)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        Self { child, stdin }
    }

    /// Sends bytes. An error shows in what is read next.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stdin.write_all(bytes);
        let _ = self.stdin.flush();
    }

    /// One answer: its code and body.
    pub fn answer(&mut self) -> (u16, Vec<u8>) {
        let out = self.child.stdout.as_mut().unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            assert_eq!(
                out.read(&mut byte).unwrap(),
                1,
                "the connection is open: {}",
                String::from_utf8_lossy(&head)
            );
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length =
            head.lines().find_map(|l| l.strip_prefix("content-length: ")).unwrap().trim().parse().unwrap();
        let mut body = vec![0; length];
        out.read_exact(&mut body).unwrap();
        (code, body)
    }

    /// Everything until the server closes.
    pub fn rest(mut self) -> String {
        let mut out = Vec::new();
        self.child.stdout.take().unwrap().read_to_end(&mut out).unwrap();
        let _ = self.child.kill();
        let _ = self.child.wait();
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Sends a SubjectAccessReview with HTTP/1.1, and reads the answer.
    pub fn review(&mut self, body: &[u8]) -> (u16, Vec<u8>) {
        let head = format!(
            "POST {REVIEWS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.send(&[head.as_bytes(), body].concat());
        self.answer()
    }

    /// Sends and reads at the same time until the server closes, so that neither side waits for the other.
    pub fn exchange(mut self, bytes: Vec<u8>) -> Vec<u8> {
        let mut out = self.child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut answer = Vec::new();
            let _ = out.read_to_end(&mut answer);
            answer
        });
        self.send(&bytes);
        let answer = reader.join().unwrap();
        self.cut();
        answer
    }

    /// Reads until these bytes have come. False: the connection ended before.
    pub fn sees(&mut self, wanted: &[u8]) -> bool {
        let out = self.child.stdout.as_mut().unwrap();
        let mut seen = Vec::new();
        let mut byte = [0];
        while !seen.ends_with(wanted) {
            if out.read(&mut byte).unwrap() == 0 {
                return false;
            }
            seen.push(byte[0]);
        }
        true
    }

    /// Cuts the connection.
    pub fn cut(self) {
        let Self { mut child, stdin } = self;
        drop(stdin);
        let _ = child.kill();
        let _ = child.wait();
    }
}
