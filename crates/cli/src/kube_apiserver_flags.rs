//! The flags of kube-apiserver that change nothing here. They are accepted, so that the command lines of kubeadm, kind, k3s
//! and of Kubernetes' own tests start, and told once at start. A flag by whose absence somebody would rely on what is not
//! there is refused with its reason.

use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};

/// The effect of a flag.
#[derive(Clone, Copy, Debug)]
enum Effect {
    /// Nothing.
    None,
    /// Nothing with these values, which say what is the case here. Others are refused.
    Only(&'static [&'static str]),
    /// It is refused, because of this.
    Refused(&'static str),
}

#[derive(Clone, Copy, Debug)]
struct Flag {
    name: &'static str,
    /// Whether it can stand without a value, which means `true`.
    is_switch: bool,
    effect: Effect,
}

impl Flag {
    const fn refused(self, why: &'static str) -> Self {
        Self { effect: Effect::Refused(why), ..self }
    }

    const fn only(self, values: &'static [&'static str]) -> Self {
        Self { effect: Effect::Only(values), ..self }
    }

    /// Checks the values that a flag was given.
    fn check(&self, values: &[&str]) -> Result<(), String> {
        match self.effect {
            Effect::None => Ok(()),
            Effect::Refused(why) => Err(why.to_owned()),
            Effect::Only(allowed) if values.iter().all(|value| allowed.contains(value)) => Ok(()),
            Effect::Only(allowed) => Err(format!("only {} is possible here", allowed.join(" or "))),
        }
    }
}

const fn value(name: &'static str) -> Flag {
    Flag { name, is_switch: false, effect: Effect::None }
}

const fn switch(name: &'static str) -> Flag {
    Flag { name, is_switch: true, effect: Effect::None }
}

const NO_OIDC: &str = "name OIDC issuers in field jwt of --authentication-config";

const FLAGS: &[Flag] = &[
    value("admission-control")
        .refused("name plugins with --enable-admission-plugins and --disable-admission-plugins"),
    switch("aggregator-reject-forwarding-redirect"),
    value("allow-metric-labels"),
    value("allow-metric-labels-manifest"),
    switch("allow-privileged").only(&["true"]),
    value("audit-log-batch-buffer-size"),
    value("audit-log-batch-max-size"),
    value("audit-log-batch-max-wait"),
    value("audit-log-batch-throttle-burst"),
    switch("audit-log-batch-throttle-enable"),
    value("audit-log-batch-throttle-qps"),
    value("audit-log-format").only(&["json"]),
    switch("audit-log-truncate-enabled"),
    value("audit-log-truncate-max-batch-size"),
    value("audit-log-truncate-max-event-size"),
    value("audit-log-version").only(&["audit.k8s.io/v1"]),
    value("audit-webhook-config-file").refused("audit events are written to --audit-log-path alone"),
    value("cert-dir"),
    switch("contention-profiling"),
    value("coordinated-leadership-lease-duration"),
    value("coordinated-leadership-renew-deadline"),
    value("coordinated-leadership-retry-period"),
    value("cors-allowed-origins"),
    value("debug-socket-path"),
    value("default-not-ready-toleration-seconds").only(&["300"]),
    value("default-unreachable-toleration-seconds").only(&["300"]),
    value("default-watch-cache-size"),
    value("delete-collection-workers"),
    switch("disable-http2-serving").only(&["false"]),
    value("disabled-metrics"),
    value("egress-selector-config-file").refused("connections are made directly"),
    switch("emulation-forward-compatible"),
    switch("enable-aggregator-routing"),
    switch("enable-garbage-collector"),
    switch("enable-logs-handler"),
    switch("enable-priority-and-fairness"),
    value("endpoint-reconciler-type"),
    value("etcd-count-metric-poll-period"),
    value("etcd-db-metric-poll-interval"),
    value("etcd-servers-overrides"),
    value("external-hostname"),
    value("goaway-chance"),
    value("kubernetes-service-node-port"),
    value("lease-reuse-duration-seconds"),
    value("livez-grace-period"),
    value("log-flush-frequency"),
    value("log-json-info-buffer-size"),
    switch("log-json-split-stream"),
    value("log-text-info-buffer-size"),
    switch("log-text-split-stream"),
    value("max-connection-bytes-per-sec"),
    value("min-compatibility-version"),
    value("min-request-timeout"),
    value("oidc-ca-file").refused(NO_OIDC),
    value("oidc-client-id").refused(NO_OIDC),
    value("oidc-groups-claim").refused(NO_OIDC),
    value("oidc-groups-prefix").refused(NO_OIDC),
    value("oidc-issuer-url").refused(NO_OIDC),
    value("oidc-required-claim").refused(NO_OIDC),
    value("oidc-signing-algs").refused(NO_OIDC),
    value("oidc-username-claim").refused(NO_OIDC),
    value("oidc-username-prefix").refused(NO_OIDC),
    value("peer-advertise-ip"),
    value("peer-advertise-port"),
    value("peer-ca-file"),
    switch("permit-address-sharing"),
    switch("permit-port-sharing"),
    switch("profiling"),
    value("proxy-client-cert-file"),
    value("proxy-client-key-file"),
    switch("runtime-config-emulation-forward-compatible"),
    switch("service-account-lookup").only(&["true"]),
    value("service-account-signing-endpoint")
        .refused("tokens are signed with --service-account-signing-key-file"),
    value("show-hidden-metrics-for-version"),
    switch("shutdown-send-retry-after"),
    value("shutdown-watch-termination-grace-period"),
    value("storage-initialization-timeout"),
    value("strict-transport-security-directives"),
    value("tls-cipher-suites")
        .refused("the cipher suites are fixed: those of TLS 1.3, and of TLS 1.2 with forward secrecy"),
    value("tls-min-version").only(&["VersionTLS10", "VersionTLS11", "VersionTLS12"]),
    value("tls-sni-cert-key").refused("there is one serving certificate, --tls-cert-file"),
    value("tracing-config-file"),
    value("vmodule"),
    switch("watch-cache"),
    value("watch-cache-sizes"),
];

/// The flags of kube-apiserver that were given and have no effect.
#[derive(Clone, Debug, Default)]
pub struct KubeApiserverFlags {
    /// Their names.
    pub given: Vec<&'static str>,
}

impl clap::FromArgMatches for KubeApiserverFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for flag in FLAGS {
            let Some(values) = matches.get_many::<String>(flag.name) else { continue };
            let values: Vec<&str> = values.map(String::as_str).collect();
            flag.check(&values).map_err(|why| {
                clap::Error::raw(ErrorKind::ValueValidation, format!("--{}: {why}\n", flag.name))
            })?;
            self.given.push(flag.name);
        }
        Ok(())
    }
}

impl clap::Args for KubeApiserverFlags {
    fn augment_args(command: Command) -> Command {
        let names = |is_refused: bool| {
            let of = FLAGS.iter().filter(|flag| matches!(flag.effect, Effect::Refused(_)) == is_refused);
            of.map(|flag| format!("--{}", flag.name)).collect::<Vec<_>>().join(" ")
        };
        let help = format!(
            "Flags of kube-apiserver that are accepted without effect, with a warning:\n  {}\n\n\
             Flags of kube-apiserver that are refused, with the reason:\n  {}",
            names(false),
            names(true)
        );
        FLAGS.iter().fold(command, |command, flag| command.arg(arg(flag))).after_long_help(help)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn arg(flag: &Flag) -> Arg {
    let arg = Arg::new(flag.name)
        .long(flag.name)
        .hide(true)
        .action(ArgAction::Append)
        .value_parser(ValueParser::string());
    if flag.is_switch {
        return arg.num_args(0..=1).require_equals(true).default_missing_value("true");
    }
    arg.num_args(1).allow_hyphen_values(true)
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Vec<&'static str>, String> {
        let command = KubeApiserverFlags::augment_args(Command::new("serve").no_binary_name(true));
        let matches = command.try_get_matches_from(arguments).map_err(|error| error.to_string())?;
        KubeApiserverFlags::from_arg_matches(&matches)
            .map(|flags| flags.given)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn flags_are_given_with_or_without_a_value_as_their_kind_allows() {
        let given = [
            "--profiling",
            "--etcd-servers-overrides",
            "/pods#https://a:2379",
            "--watch-cache=false",
            "--vmodule=a=1",
        ];
        assert_eq!(
            parsed(&given).unwrap(),
            ["etcd-servers-overrides", "profiling", "vmodule", "watch-cache"]
        );
        assert!(parsed(&["--etcd-servers-overrides"]).is_err());
        assert_eq!(parsed(&[]).unwrap(), [""; 0]);
    }

    #[test]
    fn what_somebody_would_rely_on_is_refused_by_name() {
        for (argument, why) in [
            ("--oidc-issuer-url=https://a", "OIDC"),
            ("--allow-privileged=false", "only true"),
            ("--service-account-lookup=false", "only true"),
            ("--tls-min-version=VersionTLS13", "only VersionTLS10 or VersionTLS11 or VersionTLS12"),
        ] {
            let error = parsed(&[argument]).unwrap_err();
            let name = argument.split('=').next().unwrap_or_default();
            assert!(error.contains(why) && error.contains(name), "{argument}: {error}");
        }
        assert!(parsed(&["--allow-privileged", "--tls-min-version=VersionTLS12"]).is_ok());
    }

    #[test]
    fn names_are_sorted_and_there_once() {
        assert!(FLAGS.is_sorted_by(|a, b| a.name < b.name));
    }
}
