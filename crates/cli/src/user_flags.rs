//! The user of a question, with the groups that an API server gives it.

use std::collections::BTreeMap;

use clap::Args;
use portcullis_policy::User;
use portcullis_policy::identity::add_implied_groups;

use crate::failure::Failure;

/// See the module.
#[derive(Args, Clone, Debug)]
pub struct UserFlags {
    /// The user to check
    #[arg(long = "as", value_name = "USER")]
    user: String,

    /// A group of the user. Repeatable
    #[arg(long = "as-group", value_name = "GROUP")]
    groups: Vec<String>,

    /// Use the groups of --as-group alone, and add none
    #[arg(long)]
    exact_groups: bool,

    /// The unique id of the user
    #[arg(long = "as-uid", value_name = "UID", default_value = "", hide_default_value = true)]
    uid: String,

    /// An extra value of the user: KEY=VALUE. Repeatable, also for further values of a key
    #[arg(long = "as-user-extra", value_name = "KEY=VALUE")]
    user_extra: Vec<String>,
}

impl UserFlags {
    /// Returns the user, and tells which groups were added.
    ///
    /// # Errors
    /// An extra value is no pair.
    pub(crate) fn user(&self, is_quiet: bool) -> Result<User, Failure> {
        let mut user = User {
            uid: self.uid.clone(),
            extra: extra(&self.user_extra)?,
            ..User::new(&*self.user, self.groups.iter().cloned())
        };
        if self.exact_groups {
            return Ok(user);
        }
        add_implied_groups(&mut user);
        let added: Vec<&str> = user.groups.iter().skip(self.groups.len()).map(String::as_str).collect();
        if !added.is_empty() && !is_quiet {
            let added = added.join(", ");
            eprintln!("note: groups added as by an API server: {added} (none with --exact-groups)");
        }
        Ok(user)
    }
}

/// Extra values by key. Keys are in lower case, as in an API server.
fn extra(given: &[String]) -> Result<BTreeMap<String, Vec<String>>, Failure> {
    let mut extra = BTreeMap::<String, Vec<String>>::new();
    for text in given {
        let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
        let (key, value) =
            pair.ok_or_else(|| Failure::input(format_args!("--as-user-extra {text:?}: write KEY=VALUE")))?;
        extra.entry(key.to_lowercase()).or_default().push(value.to_owned());
    }
    Ok(extra)
}
