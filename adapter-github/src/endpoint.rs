//! The closed table of what is asked of GitHub. A request can be built from an [`Endpoint`] only.

use mcp_core::tool::github::RunStatus;

/// Owner and name of a repository, in the caller's own casing. Neither can be `.` or `..`, and neither holds a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RepoPath {
    owner: String,
    name: String,
}

impl RepoPath {
    /// The repository of this name, when GitHub could have one. The schema said so already; this is the second wall.
    pub(crate) fn parse(owner: &str, name: &str) -> Option<Self> {
        let in_set = |text: &str, more: &[u8]| {
            (1..=100).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
        };
        let owner_fits = in_set(owner, b"-_") && owner.as_bytes()[0].is_ascii_alphanumeric();
        // `.github` is a real repository of many organisations; dots alone, or two at the start, are paths.
        let name_fits = in_set(name, b"-_.") && name != "." && !name.starts_with("..");
        (owner_fits && name_fits).then(|| Self { owner: owner.to_owned(), name: name.to_owned() })
    }

    /// `owner/name`, for messages.
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }
}

/// Which runs of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunFilter {
    pub(crate) per_page: u32,
    pub(crate) status: Option<RunStatus>,
    pub(crate) branch: Option<String>,
}

/// Everything that is ever asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// Whose token it is; answers any live token.
    User,
    /// The first hundred repositories that the token can see.
    UserRepos,
    /// Runs of one repository, newest first.
    Runs(RepoPath, RunFilter),
    /// One run.
    Run(RepoPath, u64),
}

/// Rows asked for with [`Endpoint::UserRepos`]; GitHub gives no more in one page.
pub(crate) const REPOS_PER_PAGE: u32 = 100;

impl Endpoint {
    /// The segments of the path below the base, not yet encoded.
    pub(crate) fn path(&self) -> Vec<String> {
        let parts = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect();
        match self {
            Self::User => parts(&["user"]),
            Self::UserRepos => parts(&["user", "repos"]),
            Self::Runs(repo, _) => parts(&["repos", &repo.owner, &repo.name, "actions", "runs"]),
            Self::Run(repo, id) => {
                parts(&["repos", &repo.owner, &repo.name, "actions", "runs", &id.to_string()])
            }
        }
    }

    /// The query, not yet encoded.
    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::User => Vec::new(),
            Self::UserRepos => vec![("per_page", REPOS_PER_PAGE.to_string())],
            Self::Runs(_, filter) => {
                let mut query = vec![
                    ("per_page", filter.per_page.to_string()),
                    // A run carries its pull requests in full otherwise.
                    ("exclude_pull_requests", "true".to_owned()),
                ];
                query.extend(filter.status.map(|status| ("status", word(status))));
                query.extend(filter.branch.clone().map(|branch| ("branch", branch)));
                query
            }
            Self::Run(..) => vec![("exclude_pull_requests", "true".to_owned())],
        }
    }

    /// One text per answer, for the cache of entity tags.
    pub(crate) fn key(&self) -> String {
        format!("{:?} {:?}", self.path(), self.query())
    }

    /// The permission that it needs, in GitHub's words.
    pub(crate) fn permission(&self) -> &'static str {
        match self {
            Self::User | Self::UserRepos => "metadata=read",
            Self::Runs(..) | Self::Run(..) => "actions=read",
        }
    }

    /// What is not there when GitHub answers 404.
    pub(crate) fn missing(&self) -> String {
        match self {
            Self::User | Self::UserRepos => "GitHub's API is not at this address; the base URL of GitHub \
                                             Enterprise Server ends in /api/v3"
                .to_owned(),
            Self::Runs(repo, _) => format!(
                "{} is missing or not granted to the token; grant it the repository and Actions: read",
                repo.full_name()
            ),
            Self::Run(repo, id) => format!(
                "run {id} of {} is missing or not granted to the token; grant it the repository and Actions: read",
                repo.full_name()
            ),
        }
    }
}

/// The word that GitHub filters by, which is also the word of the schema.
fn word(status: RunStatus) -> String {
    let word = serde_json::to_value(status).expect("a variant without data is a string");
    word.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // proves: C-F04
    #[test]
    fn names_that_are_paths_are_no_repositories() {
        for name in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "a\\b",
            "%2e%2e",
            "a?b",
            "a#b",
            "a;b",
            "a\r\nb",
            "a\u{2215}b",
            "..x",
        ] {
            assert_eq!(RepoPath::parse("octo", name), None, "{name:?}");
            assert_eq!(RepoPath::parse(name, "hello"), None, "{name:?}");
        }
        assert_eq!(RepoPath::parse("octo", &"a".repeat(101)), None);
        assert!(RepoPath::parse("octo", ".github").is_some());
        assert!(RepoPath::parse("Octo-Org_corp", "Hello.World_2").is_some());
    }

    proptest! {
        // proves: C-F04, C-F08
        #[test]
        fn no_argument_makes_another_path(owner in ".{0,20}", name in ".{0,20}", plain in "[A-Za-z0-9._-]{1,9}") {
            for (owner, name) in [(&owner, &name), (&plain, &plain), (&plain, &name)] {
                if let Some(repo) = RepoPath::parse(owner, name) {
                    let path = Endpoint::Run(repo, 7).path();
                    prop_assert_eq!(path.len(), 6);
                    prop_assert_eq!([&path[0], &path[3], &path[4], &path[5]], ["repos", "actions", "runs", "7"]);
                    prop_assert!(path.iter().all(|part| !part.contains(['/', '\\', '%', '?', '#'])));
                    prop_assert!(path.iter().all(|part| part != "." && part != ".."));
                }
            }
        }
    }
}
