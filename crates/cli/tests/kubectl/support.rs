//! A started server and the kubectl on PATH.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use portcullis_testkit::pages::{self, Example};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::recorded::repository;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use portcullis_testkit::wait::DEADLINE;
use serde_json::Value;

/// The oldest kubectl that these tests speak for.
const OLDEST: u32 = 28;

/// The pause before an example is run again.
const PAUSE: Duration = Duration::from_millis(200);

/// A server with a store of its own, and its administrator's kubeconfig.
pub(crate) struct Served {
    process: Running,
    pub(crate) scratch: Scratch,
    pub(crate) url: String,
}

impl Served {
    /// A server that begins with nothing, started with these flags.
    pub(crate) fn start(flags: &[&str]) -> Self {
        check_version();
        Self::start_in(Scratch::new(), flags)
    }

    pub(crate) fn start_in(scratch: Scratch, flags: &[&str]) -> Self {
        let mut command = program!().serve_command(&scratch.path().join("data"));
        command.args(flags);
        let process = Running::start(command);
        Self { url: process.url(), process, scratch }
    }

    /// A server that begins with the example cluster.
    pub(crate) fn example() -> Self {
        let cluster = repository().join("examples/cluster");
        Self::start(&["--state", cluster.to_str().unwrap()])
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// The number of the server's process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The server's log since its last start.
    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    /// Stops the server, and starts it again over the same directory.
    pub(crate) fn restart(self, flags: &[&str]) -> Self {
        assert_eq!(self.process.stop().code, 0);
        Self::start_in(self.scratch, flags)
    }

    /// Stops the server. Returns what it printed, but for the line with its address.
    pub(crate) fn stop(self) -> String {
        self.process.stop().stdout
    }

    /// Kills the server, which has no time to finish anything, and starts it again over the same directory.
    pub(crate) fn crash(self, flags: &[&str]) -> Self {
        self.process.kill();
        Self::start_in(self.scratch, flags)
    }

    /// Runs `openssl` in the scratch folder. The words are separated by single spaces.
    pub(crate) fn openssl(&self, words: &str) -> String {
        tool::openssl(self.scratch.path(), words)
    }

    /// Types the commands of these programs on a page, as [`types`], as the administrator of this server.
    pub(crate) fn types(&self, page: &str, programs: &[&str], folder: &Path, first: &str) {
        types(page, programs, (folder, &self.data().join("admin.kubeconfig")), first, 13);
    }

    /// Runs `kubectl` with the words of a shell's line.
    pub(crate) fn kubectl(&self, line: &str) -> Finished {
        self.kubectl_with(line, "")
    }

    /// As [`Self::kubectl`], with this on its standard input.
    pub(crate) fn kubectl_with(&self, line: &str, input: &str) -> Finished {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("exec kubectl {line}")])
            .current_dir(self.scratch.path())
            .env("KUBECONFIG", self.data().join("admin.kubeconfig"))
            .env("HOME", self.scratch.path());
        Finished::with_input(&mut command, input.as_bytes())
    }

    /// Runs `kubectl`, which must succeed, and gives what it prints.
    pub(crate) fn ok(&self, line: &str) -> String {
        self.ok_with(line, "")
    }

    pub(crate) fn ok_with(&self, line: &str, input: &str) -> String {
        let done = self.kubectl_with(line, input);
        assert_eq!(done.code, 0, "kubectl {line}: {done:?}");
        done.stdout.trim_end().to_owned()
    }

    /// Runs `kubectl`, which must fail with exit code 1, and gives what it says.
    pub(crate) fn fails(&self, line: &str) -> String {
        let done = self.kubectl(line);
        assert_eq!(done.code, 1, "kubectl {line}: {done:?}");
        done.stderr.trim_end().to_owned()
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

/// An older kubectl sends other requests and prints other messages.
fn check_version() {
    let what_to_do = format!(
        "these tests need a kubectl of 1.{OLDEST} or newer on PATH: install kubernetes-client of Debian 13, or kubectl \
         of Kubernetes' own packages"
    );
    let version = tool::run("kubectl", ["version", "--client", "-o", "json"]);
    let version: Value = serde_json::from_str(&version).unwrap_or_default();
    let minor = version["clientVersion"]["minor"].as_str().unwrap_or_default();
    let minor: u32 = minor.trim_end_matches('+').parse().unwrap_or_default();
    assert!(minor >= OLDEST, "kubectl is {}; {what_to_do}", version["clientVersion"]["gitVersion"]);
}

/// Types the commands of these programs on a page one after the other, in a folder, with a kubeconfig: what the page shows is what
/// happens. `first` is typed before each. The page has at least so many commands.
pub(crate) fn types(
    page: &str,
    programs: &[&str],
    (folder, kubeconfig): (&Path, &Path),
    first: &str,
    at_least: usize,
) {
    let page = repository().join(page);
    let mut examples: Vec<Example> =
        programs.iter().flat_map(|program| pages::examples(&page, program)).collect();
    examples.sort_by_key(|example| example.line);
    assert!(examples.len() >= at_least, "{}", examples.len());
    // A program that `first` defines is a function of the shell.
    let is_tool = |name: &&&str| **name != "portcullis" && !first.contains(&format!("{name}() "));
    for name in programs.iter().filter(is_tool) {
        tool::require(name);
    }
    // Programs keep caches in their home. The folder may be the repository.
    let home = Scratch::new();
    for Example { file, line, command, expected } in examples {
        let run = || -> Vec<String> {
            let out = Command::new("bash")
                .args(["-c", &format!("{first}\n{{ {command}\n}} 2>&1")])
                .current_dir(folder)
                .env("KUBECONFIG", kubeconfig)
                .env("HOME", home.path())
                .env("PATH", program!().search_path())
                .output()
                .unwrap();
            String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect()
        };
        let mut printed = run();
        // An event may come after the change that it describes.
        let began = Instant::now();
        let is_read = ["kubectl get ", "kubectl describe "].iter().any(|read| command.starts_with(read));
        while is_read && !pages::fits(&expected, &printed) && began.elapsed() < DEADLINE {
            thread::sleep(PAUSE);
            printed = run();
        }
        assert!(
            pages::fits(&expected, &printed),
            "{file}:{line}: {command}\nsays:\n{}\nprints:\n{}",
            expected.join("\n"),
            printed.join("\n")
        );
    }
}

/// The process whose number is in a file, ended with the test.
pub(crate) struct Typed(pub(crate) PathBuf);

impl Drop for Typed {
    fn drop(&mut self) {
        if let Ok(id) = std::fs::read_to_string(&self.0) {
            let _ = Command::new("kill").args(["-KILL", id.trim()]).status();
        }
    }
}
