//! A Debian machine with systemd, in a container without a network: the commands of `docs/releases.md` are typed there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use portcullis_testkit::pages;
use portcullis_testkit::recorded::repository;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use portcullis_testkit::wait::until;

use crate::release::VERSION;

/// Programs whose commands the page shows.
const TYPED: [&str; 6] = ["apt-get", "kubectl", "ls", "printf", "sha256sum", "systemctl"];

/// A container that has booted. What is written there is gone with it.
struct Debian {
    nspawn: Child,
    /// The number of its first process.
    init: String,
    folder: Scratch,
}

/// A command that needs the rights of root.
fn as_root(name: &str) -> Command {
    if tool::run("id", ["-u"]).trim() == "0" {
        return tool::command(name);
    }
    let mut command = tool::command("sudo");
    command.args(["--non-interactive", name]);
    command
}

impl Debian {
    /// Boots one that sees a folder of the machine as /release.
    fn boot(release: &Path) -> Self {
        tool::require("systemd-nspawn");
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("debian").join("root");
        assert!(root.is_dir(), "{} is not there: ./test makes it with debootstrap", root.display());
        let folder = Scratch::new();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let kubectl = tool::run("which", ["kubectl"]);
        let mut command = as_root("systemd-nspawn");
        command.args(["--boot", "--register=no", "--keep-unit", "--console=pipe", "--private-network"]);
        // No file of the tree is changed: several machines can run on it.
        command.args(["--volatile=overlay", &format!("--machine=portcullis-{}", std::process::id())]);
        command.arg(format!("--bind-ro={}:/release", release.display()));
        command.arg(format!("--bind-ro={}:/usr/local/bin/kubectl", kubectl.trim()));
        command
            .arg("--directory")
            .arg(root)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let nspawn = command.spawn().unwrap();
        let mut debian = Self { nspawn, init: String::new(), folder };
        until("the container has a first process", || {
            debian.init = debian.find_init().unwrap_or_default();
            !debian.init.is_empty()
        });
        until("the container has booted", || {
            // Degraded: a unit of Debian failed, which is not what is tested.
            let state = debian.types("systemctl is-system-running").stdout;
            ["running", "degraded"].contains(&state.trim())
        });
        debian
    }

    /// The process that systemd-nspawn, possibly below sudo, has started as the first one of the container.
    fn find_init(&self) -> Option<String> {
        let mut process = self.nspawn.id().to_string();
        loop {
            let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
            process = children.split_whitespace().next()?.to_owned();
            let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
            if numbers.split_whitespace().last() == Some("1") {
                return Some(process);
            }
        }
    }

    /// Types a command there, in the folder with the release, as root.
    fn types(&self, command: &str) -> Finished {
        let mut enter = as_root("nsenter");
        enter.args(["--target", &self.init, "--all", "--", "/usr/bin/env", "--ignore-environment"]);
        enter.args([
            "HOME=/root",
            "PATH=/usr/local/bin:/usr/sbin:/usr/bin",
            "DEBIAN_FRONTEND=noninteractive",
            "LC_ALL=C.UTF-8",
        ]);
        enter.args(["bash", "-c", &format!("cd /release && {{ {command}\n}} 2>&1")]);
        Finished::of(&mut enter)
    }

    /// As [`Self::types`], for a command that must succeed.
    #[track_caller]
    fn ok(&self, command: &str) -> String {
        let Finished { code, stdout, .. } = self.types(command);
        assert_eq!(code, 0, "{command}: {stdout}");
        stdout
    }
}

impl Drop for Debian {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            eprintln!("{log}\n{}", self.types("journalctl --no-pager --lines 50").stdout);
        }
        // The end of its first process is the end of all others.
        let _ = as_root("kill").args(["-KILL", &self.init]).status();
        let _ = self.nspawn.wait();
    }
}

/// A package that differs in its version alone.
fn newer(folder: &Path, package: &Path, version: &str) {
    let root = folder.join("root");
    tool::run("dpkg-deb", ["--raw-extract", package.to_str().unwrap(), root.to_str().unwrap()]);
    let control = root.join("DEBIAN/control");
    let text = fs::read_to_string(&control).unwrap();
    assert!(text.contains(&format!("\nVersion: {VERSION}\n")));
    fs::write(&control, text.replace(&format!("\nVersion: {VERSION}\n"), &format!("\nVersion: {version}\n")))
        .unwrap();
    let name = package.file_name().unwrap().to_str().unwrap().replace(VERSION, version);
    let out = package.with_file_name("next");
    fs::create_dir(&out).unwrap();
    let out = out.join(name);
    tool::run(
        "dpkg-deb",
        ["-Zgzip", "-z1", "--root-owner-group", "--build", root.to_str().unwrap(), out.to_str().unwrap()],
    );
}

/// Types the commands of the page. The package of a later version differs from this one in its version alone.
pub(super) fn does_what_the_page_shows(release: &Path) {
    let scratch = Scratch::new();
    let package: PathBuf = fs::read_dir(release)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .unwrap();
    let next = format!("{VERSION}+next");
    newer(scratch.path(), &package, &next);
    let debian = Debian::boot(release);

    let page = repository().join("docs/releases.md");
    let mut examples: Vec<_> = TYPED.iter().flat_map(|program| pages::examples(&page, program)).collect();
    examples.sort_by_key(|example| example.line);
    assert!(examples.len() >= 12, "{}", examples.len());
    let installed = || debian.types("dpkg-query --show --showformat '${Version}' portcullis").stdout;
    let main_process = || debian.ok("systemctl show --property MainPID --value portcullis-serve");
    let mut before_upgrade = String::new();
    for example in examples {
        if example.command.contains("next/") {
            assert_eq!(installed(), VERSION);
            before_upgrade = main_process();
            // What else the package has brought.
            assert_eq!(debian.ok("portcullis --version"), format!("portcullis {VERSION}\n"));
            assert!(debian.ok("kubectl plugin list").contains("/usr/bin/kubectl-portcullis\n"));
            assert!(debian.ok("man --pager=cat portcullis-serve").contains("portcullis-serve"));
            assert!(debian.ok("bash -c '. /usr/share/bash-completion/completions/portcullis && complete -p portcullis'").contains("portcullis"));
            assert_eq!(debian.ok("stat --format '%U %a' /var/lib/portcullis"), "portcullis 700\n");
            assert_eq!(debian.ok("systemctl show --property User --value portcullis-serve"), "portcullis\n");
        }
        let printed: Vec<String> = debian.types(&example.command).stdout.lines().map(str::to_owned).collect();
        assert!(
            pages::fits(&example.expected, &printed),
            "{}:{}: {}\nsays:\n{}\nprints:\n{}",
            example.file,
            example.line,
            example.command,
            example.expected.join("\n"),
            printed.join("\n")
        );
        if example.command.contains("next/") {
            assert_eq!(installed(), next);
            assert_ne!(main_process(), before_upgrade, "the service was not restarted");
        }
    }
    assert_eq!(debian.types("dpkg-query --show portcullis").code, 1);
    assert_eq!(debian.types("test -e /usr/bin/portcullis").code, 1);
    assert_eq!(debian.types("systemctl list-unit-files 'portcullis-*' --no-legend").stdout, "");
}
