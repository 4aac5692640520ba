//! Parses a policy file: lines, comments, and errors with line numbers (AB-2 to AB-13).

use std::fmt;

use serde_json::Value;

use super::line::{Document, Line};
use super::{ANY, AUTHENTICATED, AbacPolicyFile, Policy};

/// The maximum line length in bytes, without the newline (AB-5).
const MAX_LINE: usize = 65_535;

/// Parses one line of YAML. Most policies are JSON; the caller provides the YAML parser.
pub type ReadYaml = fn(&str) -> Result<Value, String>;

/// How to treat lines that grant more than they appear to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compatibility {
    /// Refuse them.
    ///
    /// DIVERGES: Kubernetes ignores unknown fields, and in a line without a version every absent field means "all". So
    /// a `spec` without `apiVersion` and `kind`, a flat `apiGroup` or `nonResourcePath`, a field name with the wrong
    /// case, and an empty YAML document grant more than they appear to, up to everything to every authenticated user
    /// (AB-11, AB-22).
    #[default]
    Strict,
    /// Accept them as Kubernetes does, with a warning.
    AbacCompatible,
}

/// An error in a policy file, which is refused as a whole (AB-12).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFileError {
    file: String,
    line: Option<(usize, String)>,
    cause: String,
}

impl PolicyFileError {
    /// The line, from 1; `None` if the error concerns the whole file.
    pub fn line(&self) -> Option<usize> {
        self.line.as_ref().map(|(number, _)| *number)
    }

    /// A description of the error.
    pub fn cause(&self) -> &str {
        &self.cause
    }
}

impl std::error::Error for PolicyFileError {}

impl fmt::Display for PolicyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, cause } = self;
        match line {
            Some((number, text)) => {
                write!(f, "error reading policy file {file}, line {number}: {text}: {cause}")
            }
            None => write!(f, "error reading policy file {file}: {cause}"),
        }
    }
}

impl AbacPolicyFile {
    /// Parses a policy file. `file` is its name, for errors and warnings.
    ///
    /// DIVERGES: a policy that is not UTF-8 is refused; Kubernetes replaces the bytes. Comments may contain any bytes.
    ///
    /// # Errors
    /// The first line that cannot be parsed or, unless `compatibility` allows it, that grants more than it appears to.
    pub fn parse(
        file: &str,
        bytes: &[u8],
        compatibility: Compatibility,
        yaml: ReadYaml,
    ) -> Result<Self, PolicyFileError> {
        let mut read = Self::default();
        let mut unversioned = false;
        for (number, line) in (1..).zip(bytes.split_inclusive(|&b| b == b'\n')) {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            if line.len() > MAX_LINE {
                let cause = "bufio.Scanner: token too long".to_owned();
                return Err(PolicyFileError { file: file.to_owned(), line: None, cause });
            }
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let fail = |cause: String| PolicyFileError {
                file: file.to_owned(),
                line: Some((number, String::from_utf8_lossy(line).into_owned())),
                cause,
            };
            let Some(text) = policy_text(line).map_err(fail)? else { continue };
            let line = read_line(text, compatibility, yaml).map_err(fail)?;

            unversioned |= line.is_unversioned;
            let mut warn =
                |what: &str| read.warnings.push(format!("policy file {file}, line {number}: {what}"));
            line.warnings.iter().for_each(|warning| warn(warning));
            let policy = Policy { line: number, ..line.policy };
            if grants_everything(&policy) {
                warn("every authenticated user may do everything");
            }
            read.policies.push(policy);
        }
        if unversioned {
            // AB-13
            read.warnings.push(format!(
                "policy file {file} contains unversioned policies: state apiVersion and kind, so that absent fields \
                 do not mean all"
            ));
        }
        Ok(read)
    }
}

/// Returns the text of a policy line; `None` for blank lines and comments (AB-3).
fn policy_text(line: &[u8]) -> Result<Option<&str>, String> {
    if line.trim_ascii_start().starts_with(b"#") {
        return Ok(None);
    }
    let text = std::str::from_utf8(line).map_err(|e| format!("not valid UTF-8: {e}"))?;
    let trimmed = text.trim();
    Ok((!trimmed.is_empty() && !trimmed.starts_with('#')).then_some(text))
}

/// AB-7: a line that begins with a brace is JSON, any other is YAML.
fn read_line(text: &str, compatibility: Compatibility, yaml: ReadYaml) -> Result<Line, String> {
    let document =
        if text.trim_start().starts_with('{') { Document::Json(text) } else { Document::Yaml(yaml(text)?) };
    let mut line = Line::read(&document)?;
    match (compatibility, line.traps.as_slice()) {
        (_, []) => {}
        (Compatibility::Strict, [trap, ..]) => {
            return Err(format!(
                "{trap}; correct the line, or accept it as Kubernetes does (--abac-compatible)"
            ));
        }
        (Compatibility::AbacCompatible, _) => line.warnings.append(&mut line.traps),
    }
    Ok(line)
}

fn grants_everything(policy: &Policy) -> bool {
    let Policy { user, group, readonly, api_group, resource, namespace, non_resource_path, .. } = policy;
    user.is_empty()
        && group == AUTHENTICATED
        && !readonly
        && [api_group, resource, namespace, non_resource_path].into_iter().all(|part| part == ANY)
}
