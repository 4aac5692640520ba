//! Explains the decision of an ABAC policy file. Walks all lines; decisions do not use this module.

use super::{AbacPolicyFile, Miss};
use crate::request::Attributes;

impl AbacPolicyFile {
    /// Explains why a request is or is not allowed: the first line that allows it, else the lines for this user that
    /// match best, in the order of the file.
    pub fn explain(&self, attributes: &Attributes<'_>) -> String {
        let mut nearest: Vec<(usize, Miss)> = Vec::new();
        for policy in &self.policies {
            let miss = match policy.allows(attributes) {
                Ok(()) => return format!("allowed by line {} of the policy file", policy.line),
                Err(Miss::Nobody | Miss::User | Miss::Group) => continue,
                Err(miss) => miss,
            };
            let best = nearest.first().map_or(miss, |(_, best)| *best);
            if miss > best {
                nearest.clear();
            }
            if miss >= best {
                nearest.push((policy.line, miss));
            }
        }
        if nearest.is_empty() {
            return "no line is for this user".to_owned();
        }
        let lines: String = nearest.iter().map(|(line, miss)| format!("\nline {line}: {miss}")).collect();
        format!("no line allows it; the nearest:{lines}")
    }
}
