# Digests, ciphers, certificates from fixed keys, and a chain that is verified.
set -eu
sh "$WORK/lib/sample.sh" 60000 >data
openssl dgst -sha256 data
openssl dgst -sha3-512 data
openssl dgst -blake2b512 -hmac key data
for cipher in aes-256-cbc aes-128-ctr chacha20 camellia-192-cbc; do
    openssl enc "-$cipher" -K 00112233445566778899aabbccddeeff0011223344556677 \
        -iv 00112233445566778899aabbccddeeff -in data -out "out/$cipher" 2>/dev/null
    openssl enc -d "-$cipher" -K 00112233445566778899aabbccddeeff0011223344556677 \
        -iv 00112233445566778899aabbccddeeff -in "out/$cipher" 2>/dev/null | cmp - data
done
openssl enc -aes-256-cbc -pbkdf2 -iter 20000 -S 0011223344556677 -pass pass:word \
    -in data -out out/pbkdf2
# A fixed Ed25519 key: its signatures are deterministic.
printf '302e020100300506032b657004220420%064d' 7 | xxd -r -p >key.der
openssl pkey -inform DER -in key.der -out key.pem
openssl pkey -in key.pem -pubout -out public.pem
openssl pkeyutl -sign -rawin -inkey key.pem -in public.pem -out out/signature
openssl pkeyutl -verify -rawin -pubin -inkey public.pem -in public.pem -sigfile out/signature
openssl req -new -key key.pem -subj '/CN=leaf' -out leaf.csr
openssl req -new -x509 -key key.pem -subj '/CN=root' -days 30000 -set_serial 1 -out root.pem
openssl x509 -req -in leaf.csr -CA root.pem -CAkey key.pem -set_serial 2 -days 20000 \
    -out leaf.pem 2>&1
openssl verify -CAfile root.pem leaf.pem
# Random keys: only what they sign and check is seen, never the keys.
openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa.pem 2>/dev/null
openssl dgst -sha256 -sign rsa.pem -out rsa.sig data
openssl pkey -in rsa.pem -pubout -out rsa.pub
openssl dgst -sha256 -verify rsa.pub -signature rsa.sig data
secret=00112233445566778899aabbccddeeff
openssl cms -EncryptedData_encrypt -aes128 -secretkey "$secret" -in data -outform DER -out sealed
openssl cms -EncryptedData_decrypt -secretkey "$secret" -inform DER -in sealed | sha256sum
openssl ciphers -v 'ALL:@STRENGTH'
openssl prime -generate -bits 256 >/dev/null
openssl asn1parse -in leaf.pem | wc -l
