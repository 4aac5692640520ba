//! One request by curl to a server that a test has started.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::tool;

/// A client certificate as curl wants it: two files.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate in PEM.
    pub certificate: PathBuf,
    /// Its key in PEM.
    pub key: PathBuf,
}

/// One request.
#[derive(Debug)]
pub struct Curl {
    words: Vec<String>,
    url: String,
    ca: PathBuf,
    body: Option<Vec<u8>>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status code.
    pub code: u16,
    /// Status line and headers in lower case.
    pub head: String,
    /// Its headers `Warning`.
    pub warnings: Vec<String>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Curl {
    /// A request to a server whose authority is in the file `ca`.
    pub fn new(method: &str, url: String, ca: PathBuf) -> Self {
        Self { words: vec!["-X".into(), method.into()], url, ca, body: None }
    }

    /// With the headers and the body of a recorded request.
    #[must_use]
    pub fn recorded(mut self, case: &Value) -> Self {
        for (name, value) in case["headers"].as_object().into_iter().flatten() {
            self = self.header(&format!("{name}: {}", value.as_str().unwrap()));
        }
        match &case["body"] {
            Value::Null => self,
            Value::String(text) => self.body(text.as_bytes()),
            other => self.body(other.to_string()),
        }
    }

    /// With a client certificate.
    #[must_use]
    pub fn by(mut self, identity: &Identity) -> Self {
        let path = |p: &Path| p.to_str().unwrap().to_owned();
        self.words.extend([
            "--cert".into(),
            path(&identity.certificate),
            "--key".into(),
            path(&identity.key),
        ]);
        self
    }

    /// With a header, `name: value`.
    #[must_use]
    pub fn header(self, header: &str) -> Self {
        self.word("-H").word(header)
    }

    /// With another argument of curl.
    #[must_use]
    pub fn word(mut self, word: &str) -> Self {
        self.words.push(word.to_owned());
        self
    }

    /// With a body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sends it, and returns the answer.
    ///
    /// # Panics
    /// There is none.
    #[track_caller]
    pub fn send(self) -> Answer {
        self.try_send().unwrap_or_else(|e| panic!("curl: {e}"))
    }

    /// Sends it.
    ///
    /// # Errors
    /// There is no answer: the text is what curl says.
    pub fn try_send(self) -> Result<Answer, String> {
        let mut command = tool::command("curl");
        command
            .args(["-sS", "-i", "--path-as-is", "--max-time", "20", "--cacert"])
            .arg(&self.ca)
            .args(&self.words);
        if self.body.is_some() {
            command.args(["--data-binary", "@-"]);
        }
        if self.words.windows(2).any(|w| w == ["-X", "HEAD"]) {
            command.arg("--head");
        }
        command.arg(&self.url).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let body = self.body.unwrap_or_default();
        let writer = std::thread::spawn(move || {
            let _ = stdin.write_all(&body);
        });
        let out = child.wait_with_output().unwrap();
        writer.join().unwrap();
        if out.stdout.is_empty() {
            return Err(String::from_utf8_lossy(&out.stderr).into_owned());
        }
        let mut rest = out.stdout.as_slice();
        loop {
            let end = rest.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
            let head = String::from_utf8_lossy(&rest[..end]).into_owned();
            rest = &rest[end + 4..];
            let code = head.split(' ').nth(1).unwrap().parse().unwrap();
            if code != 100 {
                let warnings = head.lines().filter_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    name.eq_ignore_ascii_case("Warning").then(|| value.trim().to_owned())
                });
                let warnings = warnings.collect();
                return Ok(Answer { code, head: head.to_lowercase(), warnings, body: rest.to_vec() });
            }
        }
    }
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The media type without parameters.
    pub fn media_type(&self) -> &str {
        self.header("content-type").split(';').next().unwrap()
    }

    /// The value of a header, named in lower case; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        self.head.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(": ")).unwrap_or("").trim()
    }

    /// Panics unless this is a Status of the given code and reason.
    #[track_caller]
    pub fn assert_status(&self, code: u16, reason: &str) -> Value {
        assert_eq!(self.code, code, "{}\n{}", self.head, String::from_utf8_lossy(&self.body));
        assert_eq!(self.media_type(), "application/json");
        let status = self.json();
        assert_eq!(status["kind"], "Status");
        assert_eq!(status["apiVersion"], "v1");
        assert_eq!(status["metadata"], serde_json::json!({}));
        assert_eq!(status["status"], "Failure");
        assert_eq!(status["code"], code);
        assert_eq!(status["reason"], reason);
        status
    }
}
