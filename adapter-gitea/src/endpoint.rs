//! The closed table of what is asked of Gitea and Forgejo. A request can be built from an [`Endpoint`] only.

/// Owner and name of a repository, in the caller's own casing. Neither can be `.` or `..`, and neither holds a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RepoPath {
    owner: String,
    name: String,
}

impl RepoPath {
    /// The repository of this name, when a forge could have one. The schema said so already; this is the second wall.
    pub(crate) fn parse(owner: &str, name: &str) -> Option<Self> {
        let in_set = |text: &str| {
            (1..=100).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        let owner_fits = in_set(owner) && !owner.starts_with(['.', '-']);
        // `.profile` is a real repository; dots alone, or two at the start, are paths.
        let name_fits = in_set(name) && name != "." && !name.starts_with("..");
        (owner_fits && name_fits).then(|| Self { owner: owner.to_owned(), name: name.to_owned() })
    }

    /// `owner/name`, for messages.
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }
}

/// Rows of one page. The page is the server's first one when it starts at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageOf {
    pub(crate) page: u32,
    pub(crate) limit: u32,
}

/// Everything that is ever asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// The server's version.
    Version,
    /// Repositories of the token's user.
    UserRepos(PageOf),
    /// Any one repository that can be seen; tells whether `read:repository` is held.
    AnyRepo,
    /// One repository, which tells whether it has Actions.
    Repo(RepoPath),
    /// Runs of one repository: Gitea 1.25 and later, some Forgejos.
    Runs(RepoPath, PageOf),
    /// Jobs of one repository: Gitea 1.23 and later, Forgejo 8 and later.
    Tasks(RepoPath, PageOf),
}

impl Endpoint {
    /// The segments of the path below the base, not yet encoded.
    pub(crate) fn path(&self) -> Vec<String> {
        let below =
            |parts: &[&str]| ["api", "v1"].iter().chain(parts).map(|part| (*part).to_owned()).collect();
        match self {
            Self::Version => below(&["version"]),
            Self::UserRepos(_) => below(&["user", "repos"]),
            Self::AnyRepo => below(&["repos", "search"]),
            Self::Repo(repo) => below(&["repos", &repo.owner, &repo.name]),
            Self::Runs(repo, _) => below(&["repos", &repo.owner, &repo.name, "actions", "runs"]),
            Self::Tasks(repo, _) => below(&["repos", &repo.owner, &repo.name, "actions", "tasks"]),
        }
    }

    /// The query, not yet encoded. The first page is the default everywhere and is not named.
    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        let PageOf { page, limit } = match self {
            Self::Version | Self::Repo(_) => return Vec::new(),
            Self::AnyRepo => PageOf { page: 1, limit: 1 },
            Self::UserRepos(rows) | Self::Runs(_, rows) | Self::Tasks(_, rows) => *rows,
        };
        let mut query = vec![("limit", limit.to_string())];
        if page > 1 {
            query.push(("page", page.to_string()));
        }
        query
    }
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
        assert!(RepoPath::parse("octo", ".profile").is_some());
        assert!(RepoPath::parse("Octo.Org_corp", "Hello.World_2").is_some());
    }

    proptest! {
        // proves: C-F04, C-F08, GT-08
        #[test]
        fn no_argument_makes_another_path(owner in ".{0,20}", name in ".{0,20}", plain in "[A-Za-z0-9._-]{1,9}") {
            for (owner, name) in [(&owner, &name), (&plain, &plain), (&plain, &name)] {
                if let Some(repo) = RepoPath::parse(owner, name) {
                    let path = Endpoint::Tasks(repo, PageOf { page: 2, limit: 3 }).path();
                    prop_assert_eq!(path.len(), 7);
                    prop_assert_eq!([&path[0], &path[1], &path[2]], ["api", "v1", "repos"]);
                    prop_assert_eq!([&path[5], &path[6]], ["actions", "tasks"]);
                    prop_assert!(path.iter().all(|part| !part.contains(['/', '\\', '%', '?', '#'])));
                    prop_assert!(path.iter().all(|part| part != "." && part != ".."));
                }
            }
        }
    }
}
