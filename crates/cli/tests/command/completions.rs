//! `completions`: every shell gets a script that it accepts. What the scripts complete is in the tests of kubectl, with a cluster.

use portcullis_testkit::tool::{self, Finished};

use crate::command::support::portcullis;

#[test]
fn every_shell_takes_its_script() {
    for shell in ["bash", "zsh", "fish"] {
        let run = portcullis(["completions", shell]);
        assert_eq!((run.code, &*run.stderr), (0, ""), "{shell}");
        let checked = Finished::with_input(tool::command(shell).arg("-n"), run.stdout.as_bytes());
        assert_eq!((checked.code, &*checked.stderr), (0, ""), "{shell}");
    }
    // Of these shells nothing is asked for while words are completed.
    for shell in ["elvish", "powershell"] {
        let run = portcullis(["completions", shell]);
        assert_eq!((run.code, &*run.stderr), (0, ""), "{shell}");
        for word in ["review", "bench", "can-i", "kubelet-attributes", "authorization-mode"] {
            assert!(run.stdout.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn bash_takes_its_script_and_completes_with_it() {
    let mut script = portcullis(["completions", "bash"]).stdout;
    script.push_str(
        "\nCOMP_WORDS=(portcullis review --kubelet)\nCOMP_CWORD=2\nCOMP_LINE='portcullis review --kubelet'\n\
         COMP_POINT=${#COMP_LINE}\n_portcullis portcullis --kubelet review\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n",
    );
    let mut bash = tool::command("bash");
    bash.env("PATH", portcullis_testkit::program!().search_path());
    let printed = Finished::with_input(&mut bash, script.as_bytes()).ok();
    assert_eq!(printed, "--kubelet-attributes\n");
}

#[test]
fn an_unknown_shell_is_refused() {
    portcullis(["completions", "ksh88"]).refused(&["ksh88"]);
}
