//! How much is logged, by the number that `-v` takes.

/// The filter for a verbosity, as kube-apiserver's numbers go: up to 2 what an operator should know, 3 also a line for
/// each request, from 4 what is for debugging, from 6 everything of ours.
///
/// Libraries are held at what they say of failures: at their lowest levels they write what passes through them, headers
/// and so credentials among it.
pub fn filter(verbosity: u8) -> &'static str {
    match verbosity {
        0..=2 => "info",
        3 => "info,access=debug",
        4..=5 => {
            "info,access=debug,portcullis=debug,portcullis_kinds=debug,portcullis_pki=debug,portcullis_policy=debug,portcullis_server=debug,portcullis_store=debug"
        }
        _ => {
            "info,access=trace,portcullis=trace,portcullis_kinds=trace,portcullis_pki=trace,portcullis_policy=trace,portcullis_server=trace,portcullis_store=trace"
        }
    }
}
