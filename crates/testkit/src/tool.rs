//! Programs of other people that tests compare with: openssl, kubectl, curl and so on. A test whose tool is missing
//! fails, and says which Debian package to install; it is never skipped.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The Debian package of each tool that is not in every installation.
const PACKAGES: &[(&str, &str)] = &[
    ("chromium", "chromium"),
    ("curl", "curl"),
    ("dot", "graphviz"),
    ("dpkg-deb", "dpkg"),
    ("envsubst", "gettext-base"),
    ("etcd", "etcd-server"),
    ("etcdctl", "etcd-client"),
    ("faketime", "faketime"),
    ("kubectl", "kubernetes-client"),
    ("man", "man-db"),
    ("mkdocs", "mkdocs and mkdocs-material"),
    ("openssl", "openssl"),
    ("promtool", "prometheus"),
    ("python3", "python3"),
    ("swtpm", "swtpm"),
    ("swtpm_localca", "swtpm-tools"),
    ("swtpm_setup", "swtpm-tools"),
    ("systemd-analyze", "systemd"),
    ("systemd-nspawn", "systemd-container"),
    ("tpm2_flushcontext", "tpm2-tools"),
    ("umoci", "umoci"),
    ("valgrind", "valgrind"),
    ("zstd", "zstd"),
];

/// Fails the test if the tool is not on PATH.
///
/// # Panics
/// It is not.
#[track_caller]
pub fn require(name: &str) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let package = PACKAGES.iter().find_map(|(tool, package)| (*tool == name).then_some(*package));
    assert!(is_there, "{name} is not on PATH: install the Debian package {}", package.unwrap_or(name));
}

/// The command that runs a tool.
///
/// # Panics
/// The tool is not on PATH.
#[track_caller]
pub fn command(name: &str) -> Command {
    require(name);
    Command::new(name)
}

/// How a command ended, and all that it printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The exit code.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it complained of.
    pub stderr: String,
}

impl Finished {
    /// Runs a command to its end, with nothing on its standard input.
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        Self::with_input(command, b"")
    }

    /// Runs a command to its end, with this on its standard input.
    ///
    /// # Panics
    /// It does not run, is ended by a signal, or prints what is not UTF-8.
    #[track_caller]
    pub fn with_input(command: &mut Command, input: &[u8]) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let mut stdin = child.stdin.take().expect("a pipe");
        let output = std::thread::scope(|scope| {
            // A command that reads nothing closes the pipe.
            scope.spawn(move || stdin.write_all(input));
            child.wait_with_output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
        });
        Self::from(output)
    }

    /// The output of a command that must have succeeded.
    ///
    /// # Panics
    /// The exit code is not 0.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:#?}");
        self.stdout
    }

    /// The output of a command that must have succeeded, one JSON value a line.
    ///
    /// # Panics
    /// The exit code is not 0, or a line is not JSON.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Value> {
        assert_eq!(self.code, 0, "{}", self.stderr);
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        self.stdout.lines().map(parse).collect()
    }

    /// The last line of the output.
    pub fn last_line(&self) -> &str {
        self.stdout.lines().last().unwrap_or_default()
    }

    /// It must have ended with this exit code, and the last line of its errors must have these words.
    ///
    /// # Panics
    /// It ended otherwise.
    #[track_caller]
    pub fn must(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        let last = self.stderr.lines().last().unwrap_or_default();
        for word in words {
            assert!(last.contains(word), "{word:?} in {self:?}");
        }
        self
    }

    /// The program must have refused its input: exit code 2, no output, and one error that has all these parts.
    ///
    /// # Panics
    /// It did not.
    #[track_caller]
    pub fn refused(&self, parts: &[&str]) {
        assert_eq!((self.code, &*self.stdout), (2, ""), "{self:#?}");
        let errors = self.stderr.lines().filter(|line| line.starts_with("error: ")).count();
        assert_eq!(errors, 1, "{}", self.stderr);
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} is not in: {}", self.stderr);
        }
    }
}

impl From<Output> for Finished {
    #[track_caller]
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the output is UTF-8");
        Self {
            code: output.status.code().unwrap_or_else(|| panic!("{output:?}: ended by a signal")),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// Runs a tool, which must succeed, and returns what it prints.
#[track_caller]
pub fn run<S: AsRef<OsStr>>(name: &str, arguments: impl IntoIterator<Item = S>) -> String {
    Finished::of(command(name).args(arguments)).ok()
}

/// Runs openssl in a folder with words that single spaces separate, and returns what it prints.
#[track_caller]
pub fn openssl(folder: &Path, words: &str) -> String {
    try_openssl(folder, words).ok()
}

/// As [`openssl`], for a command that may fail.
#[track_caller]
pub fn try_openssl(folder: &Path, words: &str) -> Finished {
    Finished::of(command("openssl").args(words.split(' ')).current_dir(folder))
}

/// When the first certificate of a PEM file expires, by openssl, in RFC 3339.
#[track_caller]
pub fn certificate_end(file: &Path) -> String {
    let mut openssl = command("openssl");
    openssl.args(["x509", "-noout", "-enddate", "-dateopt", "iso_8601", "-in"]).arg(file);
    let end = Finished::of(&mut openssl).ok();
    end.trim().strip_prefix("notAfter=").expect("an end").replace(' ', "T")
}
