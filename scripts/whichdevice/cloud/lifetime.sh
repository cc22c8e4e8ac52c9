#!/bin/sh
# Started at the machine's boot, as root. A TPU VM has no lifetime of its own in Google's API, so this ends it: from the
# deadline on it asks the API, as the machine's service account, to delete the machine, until that is done.
# RESOURCE, SECONDS_TO_LIVE and PROJECT are set in front of this.
state=/var/lib/whichdevice
google=http://metadata.google.internal/computeMetadata/v1
api=https://tpu.googleapis.com/v2
projects=https://cloudresourcemanager.googleapis.com/v1/projects
mkdir -p "$state"

cat >"$state/token" <<'END'
curl -sf -H 'Metadata-Flavor: Google' "$1/instance/service-accounts/default/token" |
    sed -n 's/.*"access_token" *: *"\([^"]*\)".*/\1/p'
END

# A reboot starts this again and does not lengthen the life.
[ -s "$state/deadline" ] || echo $(($(date +%s) + SECONDS_TO_LIVE)) >"$state/deadline"

cat >"$state/end" <<END
while [ "\$(date +%s)" -lt "\$(cat '$state/deadline')" ]; do sleep "\${PAUSE:-20}"; done
while :; do
    token=\$(sh '$state/token' '$google')
    printf 'header = "Authorization: Bearer %s"\n' "\$token" | curl -sf -K - -X DELETE '$api/$RESOURCE'
    sleep "\${PAUSE:-60}"
done
END

if [ -d /run/systemd/system ]; then # what a startup script leaves running may end with it
    systemd-run --quiet --collect --unit=whichdevice-lifetime sh "$state/end"
else
    setsid nohup sh "$state/end" >/dev/null 2>&1 </dev/null &
fi

# Whether the service account may do it: told to whoever rented the machine, while it can still be mended.
token=$(sh "$state/token" "$google")
answer=$(printf 'header = "Authorization: Bearer %s"\n' "$token" |
    curl -s -K - -H 'Content-Type: application/json' -d '{"permissions": ["tpu.nodes.delete"]}' \
        "$projects/$PROJECT:testIamPermissions")
case $answer in
*tpu.nodes.delete*) echo yes ;;
*error*) echo unknown ;;
*) echo no ;;
esac >"$state/may_delete"
