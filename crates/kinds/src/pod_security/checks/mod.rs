//! The checks of the standards, in the order in which Kubernetes reports them.

mod baseline;
mod fields;
mod restricted;
#[cfg(test)]
mod tests;
mod violation;

use self::fields::Rule;
pub use self::violation::Violation;
use super::pod::Pod;
use super::policy::{Level, Standard, Version};

/// A check of a level.
struct Check {
    id: &'static str,
    level: Level,
    /// The rule from a minor version on, in the order of versions.
    rules: &'static [(u32, Rule)],
    /// The check of a lower level that this one makes superfluous, where it applies.
    replaces: Option<&'static str>,
}

impl Check {
    const fn baseline(id: &'static str, rules: &'static [(u32, Rule)]) -> Self {
        Self { id, level: Level::Baseline, rules, replaces: None }
    }

    const fn restricted(id: &'static str, rules: &'static [(u32, Rule)]) -> Self {
        Self { id, level: Level::Restricted, rules, replaces: None }
    }

    const fn replacing(self, id: &'static str) -> Self {
        Self { replaces: Some(id), ..self }
    }

    fn rule(&self, standard: Standard) -> Option<Rule> {
        if self.level > standard.level {
            return None;
        }
        let holds = |(from, _): &&(u32, Rule)| Version::Minor(*from) <= standard.version;
        self.rules.iter().rev().find(holds).map(|(_, rule)| *rule)
    }
}

static CHECKS: &[Check] = &[
    Check::baseline("appArmorProfile", &[(0, baseline::app_armor)]),
    Check::baseline("capabilities_baseline", &[(0, baseline::capabilities)]),
    Check::baseline("hostNamespaces", &[(0, baseline::host_namespaces)]),
    Check::baseline("hostPathVolumes", &[(0, baseline::host_path)]),
    Check::baseline("hostPorts", &[(0, baseline::host_ports)]),
    Check::baseline("hostProbesAndHostLifecycle", &[(34, baseline::probed_hosts)]),
    Check::baseline("privileged", &[(0, baseline::privileged)]),
    Check::baseline("procMount", &[(0, baseline::proc_mount), (35, baseline::proc_mount_of_host_users)]),
    Check::baseline("seLinuxOptions", &[(0, baseline::se_linux), (31, baseline::se_linux_1_31)]),
    Check::baseline(
        "seccompProfile_baseline",
        &[(0, baseline::seccomp_annotations), (19, baseline::seccomp)],
    ),
    Check::baseline(
        "sysctls",
        &[
            (0, baseline::sysctls),
            (27, baseline::sysctls_1_27),
            (29, baseline::sysctls_1_29),
            (32, baseline::sysctls_1_32),
        ],
    ),
    Check::baseline("windowsHostProcess", &[(0, baseline::host_process)]),
    Check::restricted(
        "allowPrivilegeEscalation",
        &[(8, restricted::escalation), (25, restricted::escalation_on_linux)],
    ),
    Check::restricted(
        "capabilities_restricted",
        &[(22, restricted::capabilities), (25, restricted::capabilities_on_linux)],
    )
    .replacing("capabilities_baseline"),
    Check::restricted("procMount_restricted", &[(35, baseline::proc_mount)]).replacing("procMount"),
    Check::restricted("restrictedVolumes", &[(0, restricted::volumes)]).replacing("hostPathVolumes"),
    Check::restricted("runAsNonRoot", &[(0, restricted::non_root), (35, restricted::non_root_of_host_users)]),
    Check::restricted("runAsUser", &[(23, restricted::user), (35, restricted::user_of_host_users)]),
    Check::restricted(
        "seccompProfile_restricted",
        &[(19, restricted::seccomp), (25, restricted::seccomp_on_linux)],
    )
    .replacing("seccompProfile_baseline"),
];

/// Returns the violations of a standard by a pod. Empty if the pod meets the standard.
pub fn violations(standard: Standard, pod: Pod<'_>) -> Vec<Violation> {
    let applied = || CHECKS.iter().filter_map(|check| Some((check, check.rule(standard)?)));
    let is_replaced = |id: &str| applied().any(|(check, _)| check.replaces == Some(id));
    applied().filter(|(check, _)| !is_replaced(check.id)).filter_map(|(_, rule)| rule(pod)).collect()
}
