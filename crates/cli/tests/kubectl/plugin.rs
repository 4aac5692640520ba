//! `kubectl portcullis`: the program as a plug-in of the real kubectl, and the completion of its words by kubectl and by shells.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use portcullis_testkit::program;
use portcullis_testkit::tool::{self, Finished};
use portcullis_testkit::wait;

use crate::kubectl::support::{Served, types};

/// A server with the example cluster, and a folder on PATH where kubectl finds the plug-in.
struct Plugin {
    served: Served,
}

impl Plugin {
    fn start() -> Self {
        let served = Served::example();
        let links = served.scratch.path().join("links");
        std::fs::create_dir(&links).unwrap();
        for name in ["kubectl-portcullis", "kubectl_complete-portcullis"] {
            symlink(program!().path(), links.join(name)).unwrap();
        }
        Self { served }
    }

    /// A command of a tool with the plug-in and the program on PATH, as the administrator.
    fn command(&self, tool: &str) -> Command {
        let mut command = tool::command(tool);
        let folder = self.served.scratch.path();
        let usual = program!().search_path();
        let path =
            std::env::join_paths(std::iter::once(folder.join("links")).chain(std::env::split_paths(&usual)));
        command
            .current_dir(folder)
            .env("PATH", path.unwrap())
            .env("KUBECONFIG", self.served.data().join("admin.kubeconfig"))
            .env("HOME", folder);
        command
    }

    /// Runs kubectl with words that single spaces separate.
    fn kubectl(&self, words: &str) -> Finished {
        Finished::of(self.command("kubectl").args(words.split(' ')))
    }

    /// The words that kubectl completes, without their help. The last of the words is the one to complete.
    fn completed(&self, words: &str) -> BTreeSet<String> {
        let done = Finished::of(self.command("kubectl").arg("__complete").args(words.split(' ')));
        assert_eq!(done.code, 0, "{done:?}");
        let mut lines: Vec<&str> = done.stdout.lines().collect();
        assert_eq!(lines.pop(), Some(":4"), "no files fit: {done:?}");
        lines.into_iter().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
    }

    /// The names that `kubectl get` prints.
    fn names(&self, of: &str) -> BTreeSet<String> {
        let done = self.kubectl(&format!("{of} -o name")).ok();
        done.lines().map(|line| line.rsplit('/').next().unwrap().to_owned()).collect()
    }
}

#[test]
fn kubectl_runs_it_and_its_texts_say_how_it_was_called() {
    let plugin = Plugin::start();
    let listed = plugin.kubectl("plugin list");
    assert!(listed.code == 0 && !listed.stderr.contains("warning: "), "{listed:?}");
    assert!(listed.stdout.contains("/links/kubectl-portcullis\n"), "{listed:?}");
    let version = plugin.kubectl("portcullis version");
    assert_eq!(
        (version.code, &*version.stdout),
        (0, concat!("portcullis ", env!("CARGO_PKG_VERSION"), "\n"))
    );
    assert_eq!(program!().run(["--version"]).stdout, version.stdout);

    let help = plugin.kubectl("portcullis --help").ok();
    assert!(help.contains("\nUsage: kubectl portcullis <COMMAND>\n"), "{help}");
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    // Long descriptions go on in lines that are further to the right.
    let commands = commands.lines().take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()))
        .collect();
    assert!(commands.contains(&"can-i") && commands.contains(&"version"), "{commands:?}");
    for command in &commands {
        if *command == "help" {
            continue;
        }
        let text = plugin.kubectl(&format!("portcullis {command} --help")).ok();
        assert!(text.contains(&format!("\nUsage: kubectl portcullis {command}")), "{text}");
        // A name can be on two lines.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for other in &commands {
            let called = text.replace(&format!("kubectl portcullis {other}"), "");
            assert!(!called.contains(&format!("portcullis {other}")), "{command}, {other}: {text}");
        }
    }
    assert!(
        plugin.kubectl("portcullis attest enroll --help").ok().contains("kubectl portcullis attest enroll")
    );

    let refused = plugin.kubectl("portcullis can-i");
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("\nUsage: kubectl portcullis can-i "), "{refused:?}");
    let absent = plugin.kubectl("portcullis store import --from . --data-dir new");
    assert_eq!(absent.code, 2);
    assert!(absent.stderr.contains("run `kubectl portcullis store export`"), "{absent:?}");
    // Under any other name the program calls itself by its own.
    let own = program!().run(["can-i"]);
    assert!(own.stderr.contains("\nUsage: portcullis can-i "), "{own:?}");
}

#[test]
fn its_answers_are_those_of_kubectl_for_the_cluster_and_the_namespace_of_the_context() {
    let plugin = Plugin::start();
    let folder = plugin.served.scratch.path();
    let other = folder.join("other.kubeconfig");
    std::fs::copy(plugin.served.data().join("admin.kubeconfig"), &other).unwrap();
    let at_other = format!("--kubeconfig {}", other.display());
    let current = plugin.kubectl(&format!("{at_other} config current-context")).ok();
    let cluster =
        plugin.kubectl(&format!("{at_other} config view -o jsonpath={{.contexts[0].context.cluster}}")).ok();
    let user =
        plugin.kubectl(&format!("{at_other} config view -o jsonpath={{.contexts[0].context.user}}")).ok();
    plugin
        .kubectl(&format!(
            "{at_other} config set-context shop --cluster={cluster} --user={user} --namespace=shop"
        ))
        .ok();
    let mut answers = BTreeSet::new();
    for question in [
        "update configmaps/web-theme -n shop --as dora",
        "update configmaps/web-config -n shop --as dora",
        "update configmaps/web-theme --as dora",
        "update configmaps/web-theme --as dora --context shop",
        "update configmaps/web-config --as dora --context shop",
        "get pods --as eve --as-group shop-developers --context shop",
        "get pods --as eve --as-group shop-developers",
        "list nodes --as alice",
        "list nodes --as dora",
        "get secret/disk-encryption -n storage --as system:node:node-2 --as-group system:nodes",
        "get secret/disk-encryption -n storage --as system:node:node-3 --as-group system:nodes",
        "list pods -A --as system:serviceaccount:monitoring:prometheus",
        "get /metrics --as system:serviceaccount:monitoring:prometheus",
        "get /version --as dora",
    ] {
        let asked = plugin.kubectl(&format!("auth can-i {question} {at_other}"));
        let answered = plugin.kubectl(&format!("portcullis can-i {question} {at_other}"));
        let first = |done: &Finished| done.stdout.split(['\n', ' ']).next().unwrap().to_owned();
        assert_eq!(
            (answered.code, first(&answered)),
            (asked.code, first(&asked)),
            "{question}: {answered:?}"
        );
        answers.insert(answered.code);
    }
    assert_eq!(answers, BTreeSet::from([0, 1]), "questions of both answers");
    assert_eq!(plugin.kubectl("config current-context").ok(), current, "the kubeconfig is as it was");
}

#[test]
fn what_the_cluster_does_not_show_is_not_answered() {
    let plugin = Plugin::start();
    let token = plugin.kubectl("create token default -n shop").ok();
    let scratch = plugin.served.scratch.path();
    std::fs::copy(plugin.served.data().join("admin.kubeconfig"), scratch.join("weak.kubeconfig")).unwrap();
    let weak = "--kubeconfig weak.kubeconfig";
    plugin.kubectl(&format!("{weak} config set-credentials weak --token={}", token.trim())).ok();
    plugin.kubectl(&format!("{weak} config set-context --current --user=weak")).ok();
    plugin
        .kubectl(&format!("portcullis can-i get pods --as dora {weak}"))
        .must(3, &["not known without all", "roles", "cannot list", "`kubectl portcullis explain`"]);
    // What no object decides is answered.
    assert_eq!(
        plugin
            .kubectl(&format!("portcullis can-i get pods --as dora --authorization-mode AlwaysDeny {weak}"))
            .code,
        1
    );
    assert!(plugin.completed(&format!("portcullis reach {weak} --node ")).is_empty());
}

#[test]
fn kubectl_completes_commands_flags_and_names_of_the_cluster() {
    let plugin = Plugin::start();
    let commands = plugin.completed("portcullis ");
    assert!(["audit", "can-i", "reach", "version", "who-can"].iter().all(|name| commands.contains(*name)));
    assert!(!commands.iter().any(|name| name.starts_with('_') || name == "manual-pages"), "{commands:?}");
    assert_eq!(plugin.completed("portcullis w"), ["webhook", "who-can"].map(str::to_owned).into());
    assert_eq!(plugin.completed("portcullis attest rec"), ["records"].map(str::to_owned).into());
    let flags = plugin.completed("portcullis can-i --as");
    assert_eq!(flags, ["--as", "--as-group", "--as-uid", "--as-user-extra"].map(str::to_owned).into());
    assert_eq!(plugin.completed("portcullis explain -o j"), ["json"].map(str::to_owned).into());
    assert_eq!(plugin.completed("portcullis explain --output=j"), ["json"].map(str::to_owned).into());
    let files =
        Finished::of(plugin.command("kubectl").args(["__complete", "portcullis", "reach", "--state", ""]));
    assert_eq!(files.stdout, ":0\n", "the shell completes files: {files:?}");

    let prefixed = |names: BTreeSet<String>, stem: &str| -> BTreeSet<String> {
        names.iter().map(|name| format!("{stem}{name}")).collect()
    };
    let (nodes, pods) = (plugin.names("get nodes"), plugin.names("get pods -n shop"));
    assert!(nodes.len() > 1 && pods.len() > 1, "{nodes:?} {pods:?}");
    // A server that is slow for a moment has no names, as if the key were pressed too early.
    let completes = |words: &str, expected: BTreeSet<String>| {
        wait::until_ok(words, || {
            let completed = plugin.completed(words);
            if completed == expected { Ok(()) } else { Err((completed, expected.clone())) }
        });
    };
    completes("portcullis can-i get pods -n ", plugin.names("get namespaces"));
    completes("portcullis can-i get pods --namespace=sh", ["shop"].map(str::to_owned).into());
    completes("portcullis reach --node ", nodes.clone());
    completes("portcullis can-i -n shop get pods/", prefixed(pods.clone(), "pods/"));
    completes("portcullis can-i -n shop get po ", pods);
    completes("portcullis who-can get nodes/", prefixed(nodes.clone(), "nodes/"));
    completes("portcullis explain --as system:node:", prefixed(nodes, "system:node:"));
    let accounts = prefixed(plugin.names("get serviceaccounts -n shop"), "system:serviceaccount:shop:");
    completes("portcullis explain --as system:serviceaccount:shop:", accounts);
    completes("portcullis explain --as al", ["alice"].map(str::to_owned).into());
    completes("portcullis explain --as-group shop", ["shop-developers"].map(str::to_owned).into());
    let contexts = plugin.kubectl("config get-contexts -o name").ok();
    completes("portcullis audit --context ", contexts.lines().map(str::to_owned).collect());
    let types = plugin.kubectl("api-resources --verbs=list -o name").ok();
    wait::until("all types are completed", || {
        let completed = plugin.completed("portcullis who-can list ");
        types.lines().all(|kind| completed.contains(kind))
    });
    // The names of a cluster are not those of files.
    assert!(plugin.completed("portcullis explain --state cluster.yaml -n ").is_empty());
}

#[test]
fn a_name_that_is_a_command_of_a_shell_is_not_completed() {
    let plugin = Plugin::start();
    let bind = ["create", "clusterrolebinding", "b", "--clusterrole=view", "--user=evelyn"];
    let users = [
        "--user=evil$(touch${IFS}made)",
        "--user=evil`id`",
        "--user=evil;id",
        "--user=evil\nevening",
        "--user=evil\u{1b}[2J",
    ];
    Finished::of(plugin.command("kubectl").args(bind).args(users)).ok();
    wait::until("the user is known", || {
        let completed = plugin.completed("portcullis explain --as ev");
        assert!(completed.is_empty() || completed == BTreeSet::from(["evelyn".to_owned()]), "{completed:?}");
        !completed.is_empty()
    });
}

#[test]
fn a_cluster_that_does_not_answer_leaves_the_prompt_alone() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let scratch = portcullis_testkit::scratch::Scratch::new();
    let kubeconfig = scratch.write(
        "kubeconfig",
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'http://{}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n",
            silent.local_addr().unwrap()
        ),
    );
    let invalid = scratch.write("invalid", "contexts: 7");
    for file in [&*kubeconfig, &*invalid, Path::new("/does/not/exist")] {
        let mut command = program!().command(["__complete", "reach", "--kubeconfig"]);
        let done = Finished::of(command.arg(file).args(["--node", ""]));
        assert_eq!((done.code, &*done.stdout, &*done.stderr), (0, ":4\n", ""), "{}", file.display());
    }
    // What needs no cluster is there at once.
    let mut command = program!().command(["__complete", "can-i", "get", "--kubeconfig"]);
    let types = Finished::of(command.arg(&kubeconfig).arg("no")).ok();
    assert_eq!(types, "nodes\n:4\n");
}

/// Types keys into an interactive shell on a terminal of its own, which ends with `exit`.
const TYPE: &str = "\
import os, pty, sys
shell, keys = sys.argv[1:-1], sys.argv[-1]
child, terminal = pty.fork()
if child == 0:
    os.execvp(shell[0], shell)
seen = b''
def await_(mark):
    global seen
    while mark not in seen:
        seen += os.read(terminal, 4096)
    seen = seen.split(mark, 1)[1]
await_(b'READY>')
os.write(terminal, keys.encode() + b'\\r')
await_(b'READY>')
os.write(terminal, b'exit\\r')
try:
    while os.read(terminal, 4096): pass
except OSError:
    pass
os.waitpid(child, 0)
";

/// The program, but commands that are not completions only say with which arguments they are called.
const ECHO: &str = "portcullis() { \
    if [[ $1 == __complete ]]; then command portcullis \"$@\"; else printf '%s\\n' \"$@\" >called; fi; }";

#[test]
fn shells_complete_with_the_key_for_it() {
    let plugin = Plugin::start();
    let folder = plugin.served.scratch.path();
    let bash = format!("PS1='READY>'\n{ECHO}\nsource <(command portcullis completions bash)\n");
    std::fs::write(folder.join("bashrc"), bash).unwrap();
    let zsh = format!(
        "PS1='READY>'\nautoload -Uz compinit\ncompinit -u\n{ECHO}\nsource <(command portcullis completions zsh)\n"
    );
    std::fs::write(folder.join(".zshrc"), zsh).unwrap();
    for shell in [&["bash", "--rcfile", "bashrc", "-i"] as &[&str], &["zsh", "-d", "-i"]] {
        tool::require(shell[0]);
        for (typed, called) in [
            ("portcullis can-", "can-i"),
            ("portcullis reach --node node-3\t --dir", "reach --node node-3 --direct"),
            (
                "portcullis explain --as=system:serviceaccount:monitoring:prom",
                "explain --as=system:serviceaccount:monitoring:prometheus",
            ),
            (
                "portcullis explain get cm --as system:serviceaccount:monitoring:prom",
                "explain get cm --as system:serviceaccount:monitoring:prometheus",
            ),
            ("portcullis reach --state ./bash", "reach --state ./bashrc"),
            ("portcullis who-can get namespaces/sho", "who-can get namespaces/shop"),
        ] {
            wait::until_ok(typed, || {
                let called_with = folder.join("called");
                let _ = std::fs::remove_file(&called_with);
                let mut python = plugin.command("python3");
                python.args(["-c", TYPE]).args(shell).arg(format!("{typed}\t")).env("TERM", "dumb");
                Finished::of(&mut python).ok();
                let found = std::fs::read_to_string(&called_with).unwrap_or_default().replace('\n', " ");
                if found.trim_end() == called { Ok(()) } else { Err((shell[0], found)) }
            });
        }
    }
    let fish = |typed: &str| {
        let script = format!("portcullis completions fish | source\ncomplete --do-complete '{typed}'");
        let done = Finished::of(plugin.command("fish").args(["--no-config", "-c", &script])).ok();
        let words = done.lines().map(|line| line.split('\t').next().unwrap().to_owned());
        words.collect::<BTreeSet<String>>()
    };
    assert_eq!(fish("portcullis can-"), ["can-i"].map(str::to_owned).into());
    assert_eq!(fish("portcullis reach --state=./bash"), ["--state=./bashrc"].map(str::to_owned).into());
    for (typed, expected) in [
        ("portcullis can-i get pods -n sho", "shop"),
        ("portcullis can-i get pods --namespace=sho", "--namespace=shop"),
    ] {
        wait::until(typed, || fish(typed) == [expected].map(str::to_owned).into());
    }
}

#[test]
fn what_the_page_of_the_plugin_shows_happens() {
    let served = Served::example();
    let first = "mkdir -p ~/bin ~/share\nexport PATH=$HOME/bin:$PATH";
    types(
        "docs/kubectl-plugin.md",
        &["kubectl", "ln", "portcullis"],
        (served.scratch.path(), &served.data().join("admin.kubeconfig")),
        first,
        12,
    );
}
