//! `completions`: the scripts name what the command line has, and their shell accepts them.

use portcullis_testkit::tool::{self, Finished};

use crate::command::support::portcullis;

#[test]
fn every_shell_gets_a_script_that_names_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
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
        "\nCOMP_WORDS=(portcullis review --kubelet)\nCOMP_CWORD=2\n_portcullis portcullis --kubelet review\n\
         printf '%s\\n' \"${COMPREPLY[@]}\"\n",
    );
    let printed = Finished::with_input(&mut tool::command("bash"), script.as_bytes()).ok();
    assert_eq!(printed, "--kubelet-attributes\n");
}

#[test]
fn an_unknown_shell_is_refused() {
    portcullis(["completions", "ksh88"]).refused(&["ksh88"]);
}
