//! Prints the role table.

use identity::Role;
use mcp_core::principal::Action;

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() {
    for action in Action::ALL {
        let roles: Vec<_> =
            Role::ALL.iter().filter(|role| role.allows(*action)).map(|r| r.as_str()).collect();
        println!("{:<20} {}", action.as_str(), roles.join(", "));
    }
}
