//! A started server and the kubectl on PATH.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use portcullis_testkit::pages::{self, Example};
use portcullis_testkit::recorded::repository;
use portcullis_testkit::scratch::Scratch;
use serde_json::Value;

/// The oldest kubectl that these tests speak for.
const OLDEST: u32 = 28;

/// A server with a store of its own, and its administrator's kubeconfig.
pub(crate) struct Served {
    process: Child,
    pub(crate) scratch: Scratch,
    pub(crate) url: String,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Served {
    /// A server that begins with nothing, started with these flags.
    pub(crate) fn start(flags: &[&str]) -> Self {
        check_version();
        Self::start_in(Scratch::new(), flags)
    }

    pub(crate) fn start_in(scratch: Scratch, flags: &[&str]) -> Self {
        let (process, url) = spawn(&scratch, flags);
        Self { process, scratch, url }
    }

    /// A server that begins with the example cluster.
    pub(crate) fn example() -> Self {
        let cluster = repository().join("examples/cluster");
        Self::start(&["--state", cluster.to_str().unwrap()])
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// Stops the server, and starts it again over the same directory.
    pub(crate) fn restart(mut self, flags: &[&str]) -> Self {
        self.terminate();
        let (process, url) = spawn(&self.scratch, flags);
        self.process = process;
        self.url = url;
        self
    }

    /// Kills the server, which has no time to finish anything, and starts it again over the same directory.
    pub(crate) fn crash(mut self, flags: &[&str]) -> Self {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let (process, url) = spawn(&self.scratch, flags);
        self.process = process;
        self.url = url;
        self
    }

    fn terminate(&mut self) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
    }

    /// Types the commands of these programs on a page one after the other, in a folder: what the page shows is what happens.
    /// `first` is typed before each.
    pub(crate) fn types(&self, page: &str, programs: &[&str], folder: &Path, first: &str) {
        let page = repository().join(page);
        let mut examples: Vec<Example> =
            programs.iter().flat_map(|program| pages::examples(&page, program)).collect();
        examples.sort_by_key(|example| example.line);
        assert!(examples.len() > 12);
        let program = Path::new(env!("CARGO_BIN_EXE_portcullis")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        for Example { file, line, command, expected } in examples {
            let out = Command::new("bash")
                .args(["-c", &format!("{first}\n{{ {command}\n}} 2>&1")])
                .current_dir(folder)
                .env("KUBECONFIG", self.data().join("admin.kubeconfig"))
                .env("HOME", self.scratch.path())
                .env("PATH", &path)
                .output()
                .unwrap();
            let printed: Vec<String> =
                String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect();
            assert!(
                pages::fits(&expected, &printed),
                "{file}:{line}: {command}\nsays:\n{}\nprints:\n{}",
                expected.join("\n"),
                printed.join("\n")
            );
        }
    }

    /// Runs `kubectl` with the words of a shell's line.
    pub(crate) fn kubectl(&self, line: &str) -> Done {
        self.kubectl_with(line, "")
    }

    /// As [`Self::kubectl`], with this on its standard input.
    pub(crate) fn kubectl_with(&self, line: &str, input: &str) -> Done {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("exec kubectl {line}")])
            .current_dir(self.scratch.path())
            .env("KUBECONFIG", self.data().join("admin.kubeconfig"))
            .env("HOME", self.scratch.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A kubectl that reads nothing closes the pipe.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Done { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs `kubectl`, which must succeed, and gives what it prints.
    pub(crate) fn ok(&self, line: &str) -> String {
        self.ok_with(line, "")
    }

    pub(crate) fn ok_with(&self, line: &str, input: &str) -> String {
        let done = self.kubectl_with(line, input);
        assert_eq!(done.code, Some(0), "kubectl {line}: {done:?}");
        done.out.trim_end().to_owned()
    }

    /// Runs `kubectl`, which must fail with exit code 1, and gives what it says.
    pub(crate) fn fails(&self, line: &str) -> String {
        let done = self.kubectl(line);
        assert_eq!(done.code, Some(1), "kubectl {line}: {done:?}");
        done.err.trim_end().to_owned()
    }

    /// What `kubectl` prints as JSON.
    pub(crate) fn json(&self, line: &str) -> Value {
        let text = self.ok(&format!("{line} -o json"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("kubectl {line}: {error}: {text}"))
    }

    /// What `kubectl` prints as a table, by rows and words.
    pub(crate) fn table(&self, line: &str) -> Vec<Vec<String>> {
        let text = self.ok(line);
        text.lines().map(|row| row.split_whitespace().map(str::to_owned).collect()).collect()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(scratch: &Scratch, flags: &[&str]) -> (Child, String) {
    let mut process = Command::new(env!("CARGO_BIN_EXE_portcullis"))
        .args(["serve", "--secure-port", "0", "--data-dir"])
        .arg(scratch.path().join("data"))
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(scratch.path().join("log")).unwrap())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let log = || std::fs::read_to_string(scratch.path().join("log")).unwrap();
    let url = line.trim().strip_prefix("Serving on ").unwrap_or_else(|| panic!("{line:?}: {}", log()));
    (process, url.to_owned())
}

/// Older ones speak otherwise, and say otherwise what they did.
fn check_version() {
    let what_to_do = format!(
        "these tests need a kubectl of 1.{OLDEST} or newer on PATH: install kubernetes-client of Debian 13, or kubectl \
         of Kubernetes' own packages"
    );
    let output = Command::new("kubectl").args(["version", "--client", "-o", "json"]).output();
    let output = output.unwrap_or_else(|error| panic!("kubectl: {error}; {what_to_do}"));
    let version: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let minor = version["clientVersion"]["minor"].as_str().unwrap_or_default();
    let minor: u32 = minor.trim_end_matches('+').parse().unwrap_or_default();
    assert!(minor >= OLDEST, "kubectl is {}; {what_to_do}", version["clientVersion"]["gitVersion"]);
}
