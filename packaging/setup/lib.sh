# Shared by the scripts of packaging/: sourced, never run.
# shellcheck shell=sh disable=SC2034 # its variables are for those who source it

# The ordinary user that root's `make demo` and `make test` make and use.
DEMO_USER=lazaret-demo

# What set-up changed, one change a line, for `make clean`; and the built trees
# it was made for. There is one for the machine, whatever the clone.
MADE=/var/lib/lazaret-setup/made

# How a hint begins that names a command for root. Not "sudo": whoever reads it
# may not have it.
AS_ROOT='as root, or ask an administrator, run'

# Commands of system packages are not on every user's PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

say() { printf 'lazaret: %s\n' "$*"; }

fail() {
	printf 'lazaret: error: %s\n' "$1" >&2
	[ -z "${2-}" ] || printf 'lazaret: hint: %s\n' "$2" >&2
	exit 1
}

# ordinary_user prints who runs Lazaret here.
ordinary_user() {
	if [ "$(id -u)" = 0 ]; then
		echo "$DEMO_USER"
	else
		id -un
	fi
}

home_of() { getent passwd "$1" | cut -d: -f6; }

# stage_dir USER: where root puts what USER must be able to read, since the
# checkout may be closed to it.
stage_dir() { echo "$(home_of "$1")/lazaret"; }

# as_user USER COMMAND...: becomes USER, from root, with an environment of its
# own. It does not return.
as_user() {
	user=$1
	shift
	exec setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups \
		env -i "HOME=$(home_of "$user")" "USER=$user" "LOGNAME=$user" "SHELL=/bin/bash" \
		"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin" \
		"TERM=${TERM-dumb}" "LANG=${LANG-C.UTF-8}" "$@"
}

# stage_tree USER BUILD copies the built tree into USER's stage and prints where.
stage_tree() {
	stage=$(stage_dir "$1")
	mkdir -p "$stage/build"
	for part in bin libexec image; do
		rm -rf "$stage/build/$part"
		cp -a "$2/$part" "$stage/build/$part"
	done
	chown "$1:" "$stage" "$stage/build"
	chmod -R a+rX "$stage/build/bin" "$stage/build/libexec" "$stage/build/image"
	echo "$stage/build"
}
