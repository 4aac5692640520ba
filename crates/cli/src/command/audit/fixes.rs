//! Writes fixes as files for kubectl, with the commands that take them (AU-84). Nothing is applied.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use portcullis_policy::audit::findings::{Finding, FixKind, FixPart};
use serde_json::Value;

use crate::failure::Failure;
use crate::yaml;

/// The name of the file with the commands.
const COMMANDS: &str = "commands.sh";

/// Writes the fixes of findings that can be applied into a folder, which is made if it is not there.
///
/// # Errors
/// A file cannot be written.
pub(super) fn write(folder: &Path, findings: &[Finding]) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| {
        Failure::unreachable(format_args!("cannot write the fixes to {}: {error}", folder.display()))
    };
    fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    let mut commands =
        "#!/bin/sh\n# Look at each fix before you apply it. The parts of a fix are in their order.\n"
            .to_owned();
    let applicable = findings.iter().filter(|finding| finding.fix.is_applicable());
    for (number, finding) in (1..).zip(applicable) {
        let _ = write!(commands, "\n# {} {}\n", finding.rule.id, quoted(&finding.subject));
        for (place, part) in (1..).zip(&finding.fix.parts) {
            let name = format!("{number:03}-{}-{place}.{}", finding.rule.id, ending(part));
            let text = match part.kind {
                FixKind::Manifest => yaml::block(part.manifest.as_ref().unwrap_or(&Value::Null)),
                _ => format!("{:#}\n", part.patch.as_ref().unwrap_or(&Value::Null)),
            };
            fs::write(folder.join(&name), text).map_err(|error| failed(&error))?;
            let _ = writeln!(commands, "{}", command(part, &name));
        }
    }
    fs::write(folder.join(COMMANDS), commands).map_err(|error| failed(&error))
}

fn ending(part: &FixPart) -> &'static str {
    match part.kind {
        FixKind::Manifest => "yaml",
        _ => "json",
    }
}

/// The command that takes a file.
fn command(part: &FixPart, file: &str) -> String {
    let of = |field: &str| {
        let target = part.target.as_ref().and_then(|target| target.get(field));
        quoted(target.and_then(Value::as_str).unwrap_or_default())
    };
    let namespace = match of("namespace").as_str() {
        "''" => String::new(),
        namespace => format!(" -n {namespace}"),
    };
    match part.kind {
        FixKind::Manifest => format!("kubectl apply -f {file}"),
        // The words of a pod cannot be changed: its manifest on the machine is what to patch.
        FixKind::Config if of("kind") == "'Pod'" => format!(
            "# on the machine of pod {}, in the folder of static pods:\n# kubectl patch --local -f kube-apiserver.yaml \
             --type=json --patch-file {file} -o yaml > /tmp/kube-apiserver.yaml && mv /tmp/kube-apiserver.yaml .",
            of("name")
        ),
        FixKind::Config => {
            format!("# merge {file} into the configuration of the kubelet {}, and restart it", of("name"))
        }
        _ => {
            format!("kubectl{namespace} patch {} {} --type=json --patch-file {file}", of("kind"), of("name"))
        }
    }
}

/// A word for a shell. Names come from the cluster.
fn quoted(word: &str) -> String {
    let without_lines: String = word.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    format!("'{}'", without_lines.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn names_are_one_word_for_a_shell() {
        assert_eq!(quoted("a; rm -rf x"), "'a; rm -rf x'");
        assert_eq!(quoted("a'b"), r"'a'\''b'");
        assert_eq!(quoted("a\nb"), "'a?b'");
    }
}
