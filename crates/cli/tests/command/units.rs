//! The units of systemd in `deploy`: systemd accepts them, they confine their service, and they use flags that there are.

use std::fs;
use std::path::PathBuf;

use portcullis_testkit::program;
use portcullis_testkit::recorded::repository;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};

/// The exposure that `systemd-analyze security` may find, in tenths.
const EXPOSURE: &str = "20";
/// Where the units expect the program.
const INSTALLED: &str = "/usr/local/bin/portcullis";
/// The variables of the environment files, as they could be set.
const VARIABLES: [(&str, &str); 2] = [("${NODE_IP}", "127.0.0.1"), ("${NODE_NAME}", "node-1")];

/// The units, by the command that they start.
fn units() -> Vec<(&'static str, PathBuf)> {
    let commands = ["approve", "attest", "guard", "serve", "webhook"];
    let unit = |command| repository().join(format!("deploy/{command}/portcullis-{command}.service"));
    commands.map(|command| (command, unit(command))).to_vec()
}

/// The flags for `serve` that deploy/serve/README.md shows in `serve.env`.
fn flags_of_several_servers() -> String {
    let page = fs::read_to_string(repository().join("deploy/serve/README.md")).unwrap();
    let flags = page.split_once("FLAGS=\"\\\n").unwrap().1.split_once('"').unwrap().0;
    assert!(flags.contains("--etcd-servers"), "{flags}");
    flags.to_owned()
}

#[test]
fn every_unit_is_tested() {
    let known: Vec<PathBuf> = units().into_iter().map(|(_, path)| path).collect();
    let folders = fs::read_dir(repository().join("deploy")).unwrap().map(|entry| entry.unwrap().path());
    for folder in folders.filter(|path| path.is_dir()) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_unit = path.extension().is_some_and(|extension| extension == "service");
            assert!(!is_unit || known.contains(&path), "{} is not tested", path.display());
        }
    }
}

#[test]
fn systemd_accepts_the_units() {
    let scratch = Scratch::new();
    for (command, path) in units() {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.contains(INSTALLED), "{command}");
        // The program of this test is where no installation puts it.
        let text = text.replace(INSTALLED, program!().path().to_str().unwrap());
        let copy = scratch.path().join(format!("portcullis-{command}.service"));
        fs::write(&copy, text).unwrap();
        let mut verify = tool::command("systemd-analyze");
        verify.args(["verify", "--man=no"]).arg(copy);
        let verified = Finished::of(&mut verify);
        assert_eq!((verified.code, &*verified.stderr), (0, ""), "{command}");
    }
}

#[test]
fn services_are_confined() {
    for (command, path) in units() {
        let mut security = tool::command("systemd-analyze");
        security.args(["security", "--offline=yes", "--no-pager", "--threshold", EXPOSURE]).arg(path);
        let Finished { code, stdout, stderr } = Finished::of(&mut security);
        assert!(stdout.contains("Overall exposure level"), "{command}: {stdout}{stderr}");
        assert_eq!(code, 0, "{command}: {}", stdout.lines().last().unwrap_or_default());
    }
}

#[test]
fn units_start_the_program_with_flags_that_there_are() {
    let scratch = Scratch::new();
    let nothing = scratch.path().join("nothing");
    for (command, path) in units() {
        let mut text = fs::read_to_string(path).unwrap();
        for (variable, value) in VARIABLES {
            text = text.replace(variable, value);
        }
        text = text.replace("$FLAGS", &flags_of_several_servers());
        for folder in [
            "/etc/portcullis",
            "/etc/kubernetes",
            "/var/lib/portcullis",
            "/var/lib/kubelet",
            "/var/log/portcullis",
        ] {
            text = text.replace(folder, nothing.to_str().unwrap());
        }
        let start = text.split_once(&format!("ExecStart={INSTALLED} ")).unwrap().1;
        let start = start.split_once("\nRestart=").unwrap().0;
        let words: Vec<&str> = start.split_whitespace().filter(|word| *word != "\\").collect();
        assert_eq!(words.first(), Some(&command));
        let Finished { code, stderr, .. } = program!().run(&words);
        // All that is wrong is that the files of an installation are missing.
        assert_eq!(code, 2, "{command}: {stderr}");
        assert!(stderr.contains(nothing.to_str().unwrap()), "{command}: {stderr}");
    }
}
